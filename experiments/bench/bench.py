"""Benchmarks on this machine: rates of the CPU's ops, and time and memory of stacks, beside PyTorch.

Usage: python bench.py BUILD [--peer PYTHON] [--out results/bench] [--quick] [--threads N] [--repeats N]
                       [--seconds LIMIT] [--gib LIMIT] [--axes NAME ...] [--last VALUE] [--no-ops]

BUILD is the build folder; PYTHON an interpreter that has PyTorch, without which Periscope is measured alone. OUT gets
bench.nc, which `python -m plots` draws, ops.json of Google Benchmark, and bench.md, a section for RESULTS.md, which is
also printed. Progress goes to standard error. Exit code: 0, or 1 if a program failed.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import textwrap

import runs
import scaling

QUICK = {"repeats": 3, "seconds": 1.0, "gib": 1.5, "op_time": 0.05, "op_repeats": 3}
WHOLE = {"repeats": 5, "seconds": 10.0, "gib": 4.0, "op_time": 0.1, "op_repeats": 5}


def say(words):
    print(words, file=sys.stderr, flush=True)


def found_peer(python):
    """The interpreter if it has PyTorch, and PyTorch's version; else "" and why."""
    if not python:
        return "", "no interpreter with PyTorch was given (--peer PYTHON)"
    try:
        return python, f"PyTorch {runs.peer_version(python)}"
    except runs.RunError as error:
        return "", f"no PyTorch: {error}"


def op_rates(build, out, peer, threads, limits):
    """Google Benchmark's JSON, or None without its program. The peer's product counts for the ceiling."""
    program = build / "experiments" / "op_rates"
    if not program.exists():
        say(f"{program} is not there: it needs Google Benchmark (libbenchmark-dev)")
        return None
    command = [program, f"--benchmark_min_time={limits['op_time']}", f"--benchmark_repetitions={limits['op_repeats']}",
               "--benchmark_report_aggregates_only=true", f"--benchmark_out={out / 'ops.json'}",
               "--benchmark_out_format=json"]  # fmt: skip
    if peer:
        shape = runs.shape_of(build, preset="3.2B", layers=1, tokens=16, threads=threads)
        rate = runs.peers(peer, shape, repeats=1, parts=True)["product_gflops"]
        command.append(f"--library_gflops={rate:.1f}")
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise runs.RunError(f"op_rates: {done.stderr.strip() or done.returncode}")
    return json.loads((out / "ops.json").read_text())


def wrapped(section):
    """Its paragraphs in lines of at most 120 characters; tables and headings as they are."""
    return "\n\n".join(p if p[0] in "|#" else textwrap.fill(p, 120) for p in section.split("\n\n")) + "\n"


def some(count, what):
    return f"{count} {what[:-1] if count == 1 else what}"


def table(head, rows):
    """A table in Markdown."""
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
        f"Medians of {found['benchmarks'][0]['repetitions']} runs, {some(int(context['threads']), 'threads')}, at the "
        "3.2B shape. "
        f"Shares are of the best of this run: products {context['ceiling_f32_gflops']} GFLOP/s in f32, "
        f"{context['ceiling_f64_gflops']} in f64, memory {context['ceiling_memory_gbytes']} GB/s. Bytes are inputs and "
        "outputs, each once, so that what is still in the cache can be above 100 %; ops that compute much for every "
        "element are far below. The spread is the standard deviation over the mean."
    )
    return f"### Ops of the CPU\n\n{words}\n\n" + table(["op", "dtype", "tokens", "rate", "share", "spread"], rows)


def seconds(point):
    """Median, and the range."""
    low, high = min(point["seconds"]), max(point["seconds"])
    return f"{statistics.median(point['seconds']):.3g} ({low:.3g} – {high:.3g})"


def ratio(of, to):
    """How many times as long the one takes: wall-clock and processor time."""
    of, to = ([statistics.median(p[key]) for key in ("seconds", "processor_seconds")] for p in (of, to))
    return f"{of[0] / to[0]:.3g} ({of[1] / to[1]:.3g})"


def axis_table(points, axis, way):
    mine = [p for p in points if p["axis"] == axis and p["way"] == way]
    names = [n for n in scaling.IMPLEMENTATIONS if any(p["implementation"] == n for p in mine)]
    rows = []
    for value in sorted({p[axis] for p in mine}):
        here = {p["implementation"]: p for p in mine if p[axis] == value}
        row = [str(value)] + [seconds(here[n]) if n in here else "-" for n in names]
        row += [f"{here[n]['peak_bytes'] / 2**20:.0f}" if n in here else "-" for n in names]
        if "PyTorch" in names:
            row += [ratio(here["PyTorch"], here[n]) if n in here and "PyTorch" in here else "-" for n in names[:-1]]
        rows.append(row)
    head = [axis] + [f"{n}, s" for n in names] + [f"{n}, MiB" for n in names]
    head += [f"PyTorch / {n}" for n in names[:-1] if "PyTorch" in names]
    return table(head, rows)


def scaling_section(points, limits):
    kept = ", ".join(some(value, name) for name, value in scaling.BASE.items() if name != "width")
    parts = [
        "### Scaling\n\n"
        f"Stacks of the {scaling.PRESET} preset's proportions, width {scaling.BASE['width']}, {kept} unless varied; "
        "for the width 1 layer. Peri-LN, f32, weights drawn and statistics read at every site; backward is forward, "
        "recomputation and back, with the norm of every matrix's gradient. Seconds of all seeds: median and range of "
        f"{limits['repeats']}; peak memory of the process; ratios of wall-clock time, in brackets of processor time. "
        f"Left out: what would take longer than {limits['seconds']:g} s (a quarter of it unless the width varies) or "
        f"more than {limits['gib']:g} GiB."
    ]
    for axis in dict.fromkeys(p["axis"] for p in points):
        for way in scaling.WAYS:
            parts.append(f"By {axis}, {way}:\n\n{axis_table(points, axis, way)}")
    return "\n\n".join(parts)


def heading(line, threads, peer_words):
    load = os.getloadavg()[0]
    return (
        "## Ops and scaling\n\n"
        f"{datetime.date.today()}, {os.cpu_count()} cores of {line['cpu']} ({platform.machine()}, {platform.system()} "
        f"{platform.release()}), {some(threads, 'threads')}; Periscope {line['version']}, commit {line['commit']}, "
        f"{line['compiler']}; {peer_words}. Load average when it began: {load:.1f}. By `./lab bench`."
    )


def origin(line, threads, peer_words):
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    kept = {key: line[key] for key in ("version", "commit", "compiler", "cpu")}
    return {**kept, "threads": threads, "peer": peer_words, "created": created, "load": os.getloadavg()[0]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--peer", default="", metavar="PYTHON")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/bench"))
    parser.add_argument("--quick", action="store_true", help="smaller stacks, fewer repeats")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=runs.count, default=cores)
    parser.add_argument("--repeats", type=runs.count, help="of every stack")
    parser.add_argument("--seconds", type=runs.amount, help="limit of a stack; a quarter unless the width varies")
    parser.add_argument("--gib", type=runs.amount, help="limit of a stack's memory")
    names = [axis.name for axis in scaling.axes(cores, False)]
    parser.add_argument("--axes", nargs="+", choices=names, default=names)
    parser.add_argument("--last", type=runs.count, help="the largest value of every axis")
    parser.add_argument("--no-ops", action="store_true", help="stacks alone")
    return parser.parse_args(), cores


def main():
    args, cores = arguments()
    limits = dict(QUICK if args.quick else WHOLE)
    limits |= {key: given for key in ("repeats", "seconds", "gib") if (given := getattr(args, key)) is not None}
    args.out.mkdir(parents=True, exist_ok=True)
    peer, peer_words = found_peer(args.peer)
    say(peer_words)
    line = runs.ours(args.build, preset=scaling.PRESET, width=256, layers=1, repeats=1)
    parts = [heading(line, args.threads, peer_words)]
    made_by = origin(line, args.threads, peer_words)
    if not args.no_ops:
        found = op_rates(args.build, args.out, peer, args.threads, limits)
        parts += [ops_section(found)] if found else []
    plan = [axis.up_to(args.last) for axis in scaling.axes(cores, args.quick) if axis.name in args.axes]
    points = scaling.measure(
        args.build, peer, plan, args.threads, limits["repeats"],
        scaling.Limits(limits["seconds"], limits["gib"] * 2**30),
        lambda p: say(f"{p['axis']} {p[p['axis']]}, {p['way']}, {p['implementation']}: {seconds(p)} s, "
                      f"{p['peak_bytes'] / 2**20:.0f} MiB"))  # fmt: skip
    if points:
        scaling.write(args.out / "bench.nc", points, made_by)
        parts.append(scaling_section(points, limits))
    section = wrapped("\n\n".join(parts))
    (args.out / "bench.md").write_text(section)
    print(section, end="")


if __name__ == "__main__":
    try:
        main()
    except runs.RunError as error:
        say(f"bench.py: {error}")
        sys.exit(1)
