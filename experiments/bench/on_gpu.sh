#!/usr/bin/env bash
# Builds with CUDA on a machine with an NVIDIA GPU, tests every op against the reference, measures layers, and appends the
# table to RESULTS.md.
#
# usage: experiments/bench/on_gpu.sh [BUILD_FOLDER [RESULTS_FILE]]
# With BUILD_FOLDER nothing is built; its tests and stack_seconds are used. Exit code: 0, or the code of the first failed step.
set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.."
folder=${1-build}
results=${2-experiments/bench/RESULTS.md}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
if (($# == 0)); then
  cmake --preset release -DPERISCOPE_CUDA=ON
  cmake --build --preset release --parallel --target periscope test_backend test_gradient test_model stack_seconds
fi

# Fails if the tests do not cover the device cuda.
"$folder/tests/test_backend" --test-case='every op agrees*' --success | grep --max-count=1 'cuda f32'
for group in backend gradient model; do "$folder/tests/test_$group"; done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$folder/tests/test_backend" --test-case='every op agrees*'
  done
fi

# Runs the whole program; exit code 4 is a verdict, not a failure.
"$folder/periscope" propagate --set model.layers=4 --set model.width=256 --seeds 2 --set run.backward=true \
  --device cuda --dtype bf16 || test $? = 4

{
  printf '\n## %s\n\n' "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)"
  printf '%s, driver %s, CUDA %s, by experiments/bench/on_gpu.sh.\n' "$(date +%F)" \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" \
    "$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
  for target in 'cuda bf16' 'cuda f16' 'cuda-tf32 f32' 'cuda f32' 'cuda f64'; do
    read -r device dtype <<<"$target"
    python3 experiments/bench/bench.py "$folder" --tables layers --layers 4 --tokens 4096 --repeats 5 \
      --device "$device" --dtype "$dtype" --out results/bench | grep '^|'
  done
} | tee -a "$results"
