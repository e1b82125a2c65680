"""Measures ops, layers of the 3.2B shape, CUDA kernels and training; prints Markdown for RESULTS.md.

Usage: bench.py BUILD [--peer PYTHON [--modes eager compiled]] [--out results/bench] [--quick]
                      [--tables ops layers training kernels] [--threads N] [--repeats N] [--layers N] [--tokens N ...]
                      [--device NAME] [--dtype NAME]

BUILD is the build folder. PYTHON is an interpreter with PyTorch; on the CPU its runs alternate with Periscope's, so
that both see the same machine state. bench.md, which is also printed, and Google Benchmark's ops.json are written into
the --out folder. --device and --dtype apply to layers and kernels. The table of kernels is not a default; it needs
--device cuda or cuda-tf32, or cuda-on-host, which counts launches and bytes without a GPU. Exit code: 0; 1 if a program
failed; 2 for wrong arguments.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import textwrap

PEERS = pathlib.Path(__file__).parent / "peers"
SHAPE = ("width", "heads", "kv_heads", "head_dim", "mlp_width", "vocab", "layers", "tokens", "threads", "direction")
TRAINED = ({"layers": 12, "width": 96, "heads": 6}, {"layers": 6, "width": 256, "heads": 8})
ON_HOST = "cuda-on-host"
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


def layers_row(args, tokens, weights, direction):
    """Returns the table row of one stack; on the CPU, runs of Periscope and PyTorch alternate."""
    ours, theirs = [], {mode: [] for mode in args.modes}
    program, layers = [args.build / "experiments" / "stack_seconds"], args.layers
    alternate = args.device == "cpu"
    repeats = 1 if alternate else args.repeats
    for _ in range(args.repeats if alternate else 1):
        ours.append(line_of(program, tokens=tokens, layers=layers, direction=direction, weights=weights,
                            threads=args.threads, device=args.device, dtype=args.dtype, repeats=repeats))  # fmt: skip
        shape = {key: ours[-1][key] for key in SHAPE} | {"device": args.device, "dtype": args.dtype, "repeats": repeats}
        for mode, lines in theirs.items():
            lines.append(line_of([args.peer, PEERS / "stack_pytorch.py"], json.dumps(shape | {"mode": mode})))
    seconds, processor = median(ours, "seconds", layers), median(ours, "processor_seconds", layers)
    rate = max(line["product_gflops"] for lines in (ours, *theirs.values()) for line in lines)
    row = [args.device, args.dtype, str(tokens), direction, weights, f"{seconds:.3g}", f"{rate:.0f}",
           "-" if weights == "matrix-free" else f"{100 * ours[0]['gflop_per_layer'] / rate / seconds:.0f} %",
           f"{max(line['peak_bytes'] for line in ours) / 2**20:.0f}"]  # fmt: skip
    for lines in theirs.values():
        row += [f"{median(lines, 'seconds', layers):.3g}", f"{median(lines, 'seconds', layers) / seconds:.2f}",
                f"{median(lines, 'processor_seconds', layers) / processor:.2f}",
                f"{max(line['peak_bytes'] for line in lines) / 2**20:.0f}"]  # fmt: skip
    return row


def layers(args):
    head = ["device", "dtype", "tokens", "pass", "weights", "s per layer", "products, GFLOP/s", "share", "peak MiB"]
    for mode in args.modes:
        head += [f"PyTorch {mode}, s", "time ratio", "processor time ratio", "peak MiB"]
    rows = [layers_row(args, tokens, weights, direction)
            for tokens in args.tokens for weights in ("dense", "matrix-free") for direction in ("forward", "backward")
            if weights == "dense" or tokens <= MATRIX_FREE_UP_TO]  # fmt: skip
    words = (f"Peri-LN, {args.layers} layers, including the generation of weights and the statistics at every site. "
             "Backward includes the forward pass and the norms of all matrices' gradients. Medians of "
             f"{args.repeats}. Share: time of a dense stack's products at the best measured rate / total time. Peak: "
             "host memory of the process; for PyTorch on a GPU, memory of tensors.")
    return f"### Layers of the 3.2B shape\n\n{words}\n\n" + table(head, rows)


def kernel_row(op, kernel, use, whole):
    read, written, seconds = use["read"], use["written"], use["seconds"]
    numbers = ((use["launches"], ".0f"), (1e-6 * read, ".2f"), (1e-6 * written, ".2f"), (use["most_accesses"], ".0f"),
               (1e3 * seconds, ".3f"), (1e-9 * (read + written) / (seconds or math.nan), ".0f"),
               (100 * seconds / whole, ".1f"))  # fmt: skip
    return [op, kernel, *("-" if math.isnan(value) else format(value, form) for value, form in numbers)]


def kernel_rows(counted, timed):
    """Joins two lines of stack_seconds --by-op into table rows: bytes from `counted`, seconds from `timed`, which is
    None without a GPU. Sorted by seconds, or else by bytes read."""
    unknown = dict.fromkeys(("launches", "read", "written", "most_accesses", "seconds"), math.nan)
    uses = {}
    for line, names in ((counted, ("launches", "read", "written", "most_accesses")), (timed, ("launches", "seconds"))):
        for use in line["kernels"] if line else ():
            key = use["op"], use["kernel"]
            uses[key] = uses.get(key, unknown) | {name: use[name] for name in names}
    order = "seconds" if timed else "read"
    summed = ("launches", "read", "written", *(("seconds",) if timed else ()))
    total = unknown | {name: sum(use[name] for use in uses.values() if not math.isnan(use[name])) for name in summed}
    whole = statistics.median(timed["seconds"]) if timed else math.nan
    most = sorted(uses, key=lambda key: math.inf if math.isnan(uses[key][order]) else -uses[key][order])
    rows = [kernel_row(*key, uses[key], whole) for key in most]
    rows.append(kernel_row("sum", "", total, whole))
    if timed:
        rows.append(kernel_row("whole run without events", "", unknown | {"seconds": whole}, whole))
        rows.append(kernel_row("between launches", "", unknown | {"seconds": whole - total["seconds"]}, whole))
    return rows


def kernels(args):
    program, sections = [args.build / "experiments" / "stack_seconds"], []
    head = ["op", "kernel", "launches", "MB read", "MB written", "accesses", "ms", "GB/s", "% of the run"]
    for tokens in args.tokens:
        for direction in ("forward", "backward"):
            options = {"tokens": tokens, "layers": args.layers, "direction": direction, "dtype": args.dtype,
                       "threads": args.threads}  # fmt: skip
            counted = line_of(program, "--by-op", device=ON_HOST, repeats=0, **options)
            timed = None
            if args.device != ON_HOST:
                timed = line_of(program, "--by-op", device=args.device, repeats=args.repeats, **options)
            sections.append(f"{args.device}, {args.dtype}, {tokens} tokens, {direction}, layers: {args.layers}\n\n"
                            + table(head, kernel_rows(counted, timed)))  # fmt: skip
    words = ("Launches of the CUDA backend by op and kernel. Bytes of kernels: accesses to device memory by all "
             "threads, counted in the host execution; caches serve some of them, so rates can exceed the memory's. "
             "Bytes of products and copies: every operand and result once. Bytes of `cholesky` and `solve` are not "
             "counted. Accesses: the largest number by one thread in one launch. Kernel times are from one run, "
             "between CUDA events before and after each launch. The whole run is the median of "
             f"{args.repeats} without events; the row between launches is the difference.")
    return f"### Kernels of the 3.2B shape\n\n{words}\n\n" + "\n\n".join(sections)


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


TABLES = {"ops": ops, "layers": layers, "training": training, "kernels": kernels}


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
    parser.add_argument("--modes", nargs="+", choices=("eager", "compiled"), default=["eager"],
                        help="modes of PyTorch in the table layers")  # fmt: skip
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/bench"))
    parser.add_argument("--quick", action="store_true", help="one layer, short inputs, one repeat")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=["ops", "layers", "training"])
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
    if "kernels" in args.tables and args.device not in ("cuda", "cuda-tf32", ON_HOST):
        parser.error(f"--device {args.device}: expected cuda, cuda-tf32 or {ON_HOST} with the table kernels")
    if not args.peer:
        args.modes = []
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
