"""Time per layer of a stack of the 3.2B shape, forward and with backward: Periscope beside PyTorch, in one run.

Usage: python dense_streaming.py BUILD [--peer PYTHON] [--tokens 1024 4096] [--layers 2] [--repeats 3] [--threads N ...]

BUILD is the build folder; PYTHON an interpreter that has PyTorch (without it Periscope is measured alone). The two take
turns, so that both see the same machine. `products` is the share of the run's time that its matrix products alone
need at the best rate that any product reached in this run: every matrix once forward, three times with backward, and
attention's products. `of processor` is the same in processor time, which other programs on the machine disturb less.
"""

import argparse
import os
import pathlib
import statistics
import sys

import runs


def measured(args, tokens, way, threads):
    ours, theirs = [], []
    for _ in range(args.repeats):
        ours.append(runs.ours(args.build, tokens=tokens, layers=args.layers, way=way, repeats=1, threads=threads,
                              memory=args.memory, parts=True))
        if args.peer:
            theirs.append(runs.peers(args.peer, ours[-1], repeats=1, parts=True))
    return ours, theirs


def median(lines, key):
    return statistics.median(line[key] for line in lines)


def per_layer(args, lines, key):
    return statistics.median(line[key][0] for line in lines) / args.layers


def peak_mib(lines):
    return max(line["peak_bytes"] for line in lines) / 2**20


def row(args, tokens, way):
    """One row of the table: the best setting of threads for each."""
    cells = []
    for threads in args.threads:
        cells.append(measured(args, tokens, way, threads))
    ours = min((cell[0] for cell in cells), key=lambda lines: per_layer(args, lines, "seconds"))
    rate = max(line["product_gflops"] for cell in cells for line in cell[0] + cell[1])
    core_rate = max(line["product_gflops_per_processor_second"] for cell in cells for line in cell[0])
    flop = ours[0]["gflop_per_layer"]
    seconds, processor = per_layer(args, ours, "seconds"), per_layer(args, ours, "processor_seconds")
    numbers = [f"{tokens}", way, f"{seconds:.2f}", f"{flop / rate / seconds:.2f}",
               f"{flop / core_rate / processor:.2f}", f"{peak_mib(ours):.0f}", f"{rate:.0f}",
               f"{median(ours, 'normal_ns_of_a_core'):.2f}"]
    if not args.peer:
        return [*numbers, "-", "-", "-", "-"]
    theirs = min((cell[1] for cell in cells), key=lambda lines: per_layer(args, lines, "seconds"))
    return [*numbers, f"{per_layer(args, theirs, 'seconds'):.2f}",
            f"{per_layer(args, theirs, 'seconds') / seconds:.2f}",
            f"{per_layer(args, theirs, 'processor_seconds') / processor:.2f}", f"{peak_mib(theirs):.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--peer", default="")
    parser.add_argument("--tokens", type=runs.count, nargs="+", default=[1024, 4096])
    parser.add_argument("--ways", nargs="+", default=["forward", "backward"], choices=["forward", "backward"])
    parser.add_argument("--layers", type=runs.count, default=2)
    parser.add_argument("--repeats", type=runs.count, default=3)
    parser.add_argument("--memory", type=runs.amount, default=0,
                        help="GiB that Periscope's backward pass may use (--memory); 0: its default; 0.001: nothing is "
                             "kept")
    parser.add_argument("--threads", type=runs.count, nargs="+", default=[len(os.sched_getaffinity(0))])
    args = parser.parse_args()
    print("| tokens | way | s per layer | products | of processor | peak MiB | GFLOP/s | ns per normal | PyTorch s | "
          "ratio | of processor | peak MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    try:
        for tokens in args.tokens:
            for way in args.ways:
                print("| " + " | ".join(row(args, tokens, way)) + " |", flush=True)
    except runs.RunError as error:
        sys.exit(f"dense_streaming: {error}")


if __name__ == "__main__":
    main()
