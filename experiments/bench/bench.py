"""Measures ops, layers of the 3.2B shape and training on this machine; prints Markdown for RESULTS.md.

Usage: bench.py BUILD [--peer PYTHON] [--out results/bench] [--quick] [--tables ops layers training] [--threads N]
                      [--repeats N] [--tokens N ...] [--device NAME] [--dtype NAME]

BUILD is the build folder. PYTHON is an interpreter with PyTorch; its runs alternate with Periscope's, so that both see
the same machine state. bench.md, which is also printed, and Google Benchmark's ops.json are written into the --out
folder. --device and --dtype apply to layers; PyTorch is compared on the CPU in f32. Exit code: 0, or 1 if a program
failed.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import textwrap

PEERS = pathlib.Path(__file__).parent / "peers"
SHAPE = ("width", "heads", "kv_heads", "head_dim", "mlp_width", "vocab", "layers", "tokens", "threads", "direction")
TRAINED = ({"layers": 12, "width": 96, "heads": 6}, {"layers": 6, "width": 256, "heads": 8})
MATRIX_FREE_UP_TO = 256  # tokens; for more tokens matrix-free weights are slower than dense ones


class RunError(Exception):
    """Raised if a program fails. The message contains the name of the program and the last line of its error output."""


def output_of(command, **environment):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=os.environ | environment)
    except OSError as error:
        raise RunError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"{pathlib.Path(command[0]).name}: {lines[-1]}")
    return done.stdout


def line_of(program, *words, **options):
    """Runs a program with flags and returns the last line of its output, which is JSON."""
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    return json.loads(output_of([*program, *words, *flags]).splitlines()[-1])


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ops_section(found):
    context, rows = found["context"], []
    for one in found["benchmarks"]:
        if one.get("aggregate_name") != "median":
            continue
        name, dtype, tokens = one["run_name"].split("/")[:3]
        unit = "GFLOP/s" if "GFLOP/s" in one else "GB/s"
        spread = next(o[unit] for o in found["benchmarks"]
                      if o["run_name"] == one["run_name"] and o.get("aggregate_name") == "cv")  # fmt: skip
        rows.append([f"`{name}`", dtype, tokens, f"{one[unit]:.3g} {unit}", f"{100 * one['share']:.0f} %",
                     f"{100 * spread:.0f} %"])  # fmt: skip
    words = (
        f"Medians of {found['benchmarks'][0]['repetitions']} runs at the 3.2B shape, threads: {context['threads']}. "
        f"Shares are relative to the best rates in this run: products {context['ceiling_f32_gflops']} GFLOP/s in f32, "
        f"{context['ceiling_f64_gflops']} in f64, memory {context['ceiling_memory_gbytes']} GB/s. Inputs and outputs "
        "count once each, so ops with cached inputs can exceed 100 %. The spread is standard deviation over mean."
    )
    return f"### Ops of the CPU\n\n{words}\n\n" + table(["op", "dtype", "tokens", "rate", "share", "spread"], rows)


def ops(args):
    program = args.build / "experiments" / "op_rates"
    if not program.exists():
        print(f"{program}: no such file; install Google Benchmark (libbenchmark-dev)", file=sys.stderr)
        return ""
    seconds, repeats = (0.05, 3) if args.quick else (0.1, 5)
    output_of([program, f"--benchmark_min_time={seconds}", f"--benchmark_repetitions={repeats}",
               "--benchmark_report_aggregates_only=true", f"--benchmark_out={args.out / 'ops.json'}",
               "--benchmark_out_format=json"], OMP_NUM_THREADS=str(args.threads))  # fmt: skip
    return ops_section(json.loads((args.out / "ops.json").read_text()))


def median(lines, key, layers):
    return statistics.median(second for line in lines for second in line[key]) / layers


def layers_row(args, tokens, weights, direction, layers):
    """Returns the table row of one stack; runs of Periscope and PyTorch alternate."""
    ours, theirs = [], []
    program = [args.build / "experiments" / "stack_seconds"]
    alternate = args.device == "cpu"
    for _ in range(args.repeats if alternate else 1):
        ours.append(line_of(program, tokens=tokens, layers=layers, direction=direction, weights=weights,
                            threads=args.threads, device=args.device, dtype=args.dtype,
                            repeats=1 if alternate else args.repeats))  # fmt: skip
        if args.peer:
            shape = json.dumps({key: ours[-1][key] for key in SHAPE})
            theirs.append(line_of([args.peer, PEERS / "stack_pytorch.py"], shape))
    seconds, processor = median(ours, "seconds", layers), median(ours, "processor_seconds", layers)
    rate = max(line["product_gflops"] for line in ours + theirs)
    row = [args.device, args.dtype, str(tokens), direction, weights, f"{seconds:.3g}", f"{rate:.0f}",
           "-" if weights == "matrix-free" else f"{100 * ours[0]['gflop_per_layer'] / rate / seconds:.0f} %",
           f"{max(line['peak_bytes'] for line in ours) / 2**20:.0f}"]  # fmt: skip
    if theirs:
        row += [f"{median(theirs, 'seconds', layers):.3g}", f"{median(theirs, 'seconds', layers) / seconds:.2f}",
                f"{median(theirs, 'processor_seconds', layers) / processor:.2f}",
                f"{max(line['peak_bytes'] for line in theirs) / 2**20:.0f}"]  # fmt: skip
    return row


def layers(args):
    head = ["device", "dtype", "tokens", "pass", "weights", "s per layer", "products, GFLOP/s", "share", "peak MiB"]
    head += ["PyTorch, s", "time ratio", "processor time ratio", "peak MiB"] if args.peer else []
    rows = [layers_row(args, tokens, weights, direction, args.layers)
            for tokens in args.tokens for weights in ("dense", "matrix-free") for direction in ("forward", "backward")
            if weights == "dense" or tokens <= MATRIX_FREE_UP_TO]  # fmt: skip
    words = (f"Peri-LN, {args.layers} layers, including the generation of weights and the statistics at every site. "
             "Backward includes the forward pass and the norms of all matrices' gradients. Medians of "
             f"{args.repeats}. Share: time of a dense stack's products at the best measured rate / total time.")
    return f"### Layers of the 3.2B shape\n\n{words}\n\n" + table(head, rows)


def training(args):
    rows = []
    for shape in TRAINED:
        rates, memory = {}, {}
        for _ in range(args.repeats):
            programs = {"Periscope": ([args.build / "experiments" / "stack_seconds", "train"], {})}
            for mode in ("eager", "compiled") if args.peer else ():
                programs[f"PyTorch, {mode}"] = ([args.peer, PEERS / "train_pytorch.py"], {"mode": mode})
            for name, (program, options) in programs.items():
                line = line_of(program, threads=args.threads, **shape, **options)
                rates.setdefault(name, []).append(line["tokens_per_second"])
                memory[name] = max(memory.get(name, 0), line["peak_bytes"])
        ours = statistics.median(rates["Periscope"])
        for name, found in rates.items():
            rate = statistics.median(found)
            rows.append([f"{shape['layers']} layers, width {shape['width']}: {name}",
                         f"{rate:.0f} ({min(found):.0f} – {max(found):.0f})", f"{memory[name] / 2**20:.0f}",
                         f"{ours / rate:.2f}"])  # fmt: skip
    words = f"Tokens per second, medians of {args.repeats} (minimum – maximum)."
    return f"### Training\n\n{words}\n\n" + table(["", "tokens/s", "peak MiB", "Periscope relative to it"], rows)


TABLES = {"ops": ops, "layers": layers, "training": training}


def heading(args):
    line = line_of([args.build / "experiments" / "stack_seconds"], tokens=4, layers=1, weights="matrix-free")
    peer = ""
    if args.peer:
        version = output_of([args.peer, "-c", "import torch; print(torch.__version__)"]).strip()
        peer = f"; PyTorch {version}"
    return (f"## This machine\n\n{datetime.date.today()}, {args.threads} of {os.cpu_count()} cores of {line['cpu']}; "
            f"Periscope {line['version']}, commit {line['commit']}, {line['compiler']}{peer}. Load average at the "
            f"start: {os.getloadavg()[0]:.1f}. Measured by `./lab bench`.")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--peer", default="", metavar="PYTHON")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/bench"))
    parser.add_argument("--quick", action="store_true", help="one layer, short inputs, one repeat")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tokens", type=int, nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="f32")
    args = parser.parse_args()
    args.repeats = args.repeats or (1 if args.quick else 3)
    args.layers = args.layers or (1 if args.quick else 2)
    args.tokens = args.tokens or ([128] if args.quick else [128, 1024, 4096])
    if (args.device, args.dtype) != ("cpu", "f32"):
        args.peer = ""
    return args


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    parts = [heading(args), *filter(None, (TABLES[name](args) for name in args.tables))]
    paragraphs = "\n\n".join(parts).split("\n\n")
    section = "\n\n".join(p if p[0] in "|#" else textwrap.fill(p, 120) for p in paragraphs) + "\n"
    (args.out / "bench.md").write_text(section)
    print(section, end="")


if __name__ == "__main__":
    try:
        main()
    except RunError as error:
        sys.exit(f"bench.py: {error}")
