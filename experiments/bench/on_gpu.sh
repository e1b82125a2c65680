#!/usr/bin/env bash
# Builds with CUDA on a machine with an NVIDIA GPU, tests every op against the reference, and measures kernels, layers
# and whole stacks; also PyTorch, if python3 has it. The tables are appended to RESULTS.md. The most informative steps
# come first, in case the run is stopped.
#
# usage: experiments/bench/on_gpu.sh [BUILD_FOLDER [RESULTS_FILE]]
# With BUILD_FOLDER nothing is built; its tests and programs are used. Later steps run even if one fails. Exit code: 0,
# or the code of the first failed step.
# shellcheck disable=SC2317  # steps are called by name
set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.."
folder=${1-build}
results=${2-experiments/bench/RESULTS.md}
limit=480  # seconds after the start: no further step begins; the full-size propagate and the sanitizers stop
status=0

# step TITLE COMMAND...: runs COMMAND, unless the time is over. Sets `status` to the exit code of the first failure.
step() {
  local code
  if ((SECONDS >= limit)); then
    printf '==> %s: skipped after %d s\n' "$1" "$SECONDS"
    return
  fi
  printf '==> %s, after %d s\n' "$1" "$SECONDS"
  # Bash ignores `set -e` in conditions, so a subshell sets it, and the subshell's status is read afterwards.
  set +e
  (set -e; "${@:2}")
  code=$?
  set -e
  if ((code != 0)); then printf '==> %s: failed with exit code %d\n' "$1" "$code"; fi
  if ((status == 0)); then status=$code; fi
}

build() {
  cmake --preset release -DPERISCOPE_CUDA=ON
  cmake --build --preset release --parallel --target periscope test_backend test_gradient test_model stack_seconds
}

# Fails if the tests do not cover the device cuda.
tests() {
  "$folder/tests/test_backend" --test-case='every op matches*' --success | grep --count 'cuda f32'
  "$folder/tests/test_backend" --test-case='normal and measure: a GPU*' | grep --count 'compared on cuda'
  for group in backend gradient model; do "$folder/tests/test_$group"; done
}

# Runs the whole program; exit code 4 is a verdict, not a failure.
program() {
  "$folder/periscope" propagate --set model.layers=4 --set model.width=256 --seeds 2 --backward --device cuda \
    --dtype bf16 || test $? = 4
}

# The same at full size: 32 layers, 4096 tokens, one seed. Fails at the time limit.
whole_program() {
  local start=$SECONDS
  timeout $((limit > SECONDS ? limit - SECONDS : 1)) "$folder/periscope" propagate --set model.preset=3.2B \
    --set input.tokens=4096 --seeds 1 --backward --device cuda --dtype bf16 --quiet >/dev/null || test $? = 4
  printf '\npropagate --backward of 32 layers, 4096 tokens, 1 seed, with theory on %d cores: %d s.\n' "$(nproc)" \
    "$((SECONDS - start))" | tee -a "$results"
}

machine() {
  printf '\n## %s\n\n%s, driver %s, CUDA %s, %d CPU cores, by experiments/bench/on_gpu.sh.\n' \
    "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)" "$(date +%F)" \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" \
    "$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')" "$(nproc)"
}

# measure SCRIPT FLAGS...: runs bench.py with FLAGS, and appends what the sed script prints to the results.
measure() {
  python3 experiments/bench/bench.py "$folder" --out results/bench "${@:2}" | sed -n "$1" | tee -a "$results"
}
# shellcheck disable=SC2016
section='/^### /,$ { s/^###/\n&/; p }'  # without the description of the machine
row='/^| cuda/p'

kernels() { measure "$section" --tables kernels --device cuda --dtype bf16 --layers 1 --tokens 4096 --repeats 5; }
# layers DEVICE DTYPE SED_SCRIPT FLAGS...
layers() { measure "$3" --tables layers --device "$1" --dtype "$2" --layers 4 --tokens 4096 --repeats 5 "${@:4}"; }
# Prints the largest GPU memory in use during a command, in MiB, with the driver's.
peak_of() {
  local peaks=$folder/gpu_memory
  (while sleep 0.2; do nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits || true; done) >"$peaks" &
  # shellcheck disable=SC2064  # the number of the process is known now
  trap "kill $! || true" EXIT
  "$@"
  printf '\nPeak GPU memory, with that of the driver: %d MiB.\n' "$(sort -n "$peaks" | tail -n 1)" | tee -a "$results"
}
whole() { measure "$section" --tables layers --device cuda --dtype bf16 --layers 32 --tokens 4096 8192 --repeats 2; }

# Stops at the time limit, which is not a failure.
sanitizer() {
  local code=0
  timeout $((limit > SECONDS ? limit - SECONDS : 1)) compute-sanitizer --tool "$1" --error-exitcode 1 \
    "$folder/tests/test_backend" --test-case='every op matches*' || code=$?
  if ((code == 124)); then echo "$1: stopped at the time limit"; else return "$code"; fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
if (($# == 0)); then step "Build" build; fi
step "Tests" tests
machine | tee -a "$results"
step "Kernels" kernels
step "Layers, bf16" layers cuda bf16 "$section"
step "Layers, f16" layers cuda f16 "$row"
step "Layers, TF32" layers cuda-tf32 f32 "$row"
step "Layers, f32" layers cuda f32 "$row"
step "Layers, f64" layers cuda f64 "$row"
step "Whole 3.2B stacks" peak_of whole
if python3 -c 'import torch' 2>/dev/null; then
  step "PyTorch, eager" layers cuda bf16 "$section" --peer python3 --modes eager
  step "PyTorch, compiled" layers cuda bf16 "$section" --peer python3 --modes compiled
else
  printf '\npython3 has no PyTorch on this machine.\n' | tee -a "$results"
fi
step "Small propagate" program
step "Full-size propagate" whole_program
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do step "Sanitizer, $tool" sanitizer "$tool"; done
fi
exit "$status"
