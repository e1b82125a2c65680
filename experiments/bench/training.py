"""Tokens per second of training beside PyTorch, eager and compiled, by turns in one run.

Usage: training.py BUILD_FOLDER [--peer PYTHON] [--rounds 3] [--threads N]
"""

import argparse
import json
import os
import pathlib
import statistics

import runs

PEER = pathlib.Path(__file__).parent / "peers" / "train_pytorch.py"
SHAPES = ({"layers": 12, "width": 96, "heads": 6}, {"layers": 6, "width": 256, "heads": 8})


def rates(build, peer, shape, threads, rounds):
    """Tokens per second of every implementation, by round, and the most memory of each."""
    found = {}

    def note(name, line, memory):
        entry = found.setdefault(name, {"rate": [], "memory": 0})
        entry["rate"].append(line["tokens_per_second"])
        entry["memory"] = max(entry["memory"], memory)

    for _ in range(rounds):
        line = runs.line_of([build / "experiments" / "training_rate", *runs.flags(shape), "--threads", threads])
        note("periscope", line, line["peak_bytes"])
        found["record_share"] = line["record_share"]
        for mode in ("eager", "compiled") if peer else ():
            words = [peer, PEER, *runs.flags(shape), "--threads", threads, "--mode", mode, "--steps", 40]
            line = runs.line_of(words)
            note(mode, line, line["peak_bytes"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD_FOLDER")
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--rounds", type=runs.count, default=3)
    parser.add_argument("--threads", type=runs.count, default=os.cpu_count())
    words = parser.parse_args()
    for shape in SHAPES:
        found = rates(words.build, words.peer, shape, words.threads, words.rounds)
        share = found.pop("record_share")
        ours = statistics.median(found["periscope"]["rate"])
        print(f"{shape['layers']} layers, width {shape['width']}: a record costs {100 * share:.1f} % of 100 steps")
        for name, entry in found.items():
            rate = statistics.median(entry["rate"])
            print(f"  {name:9}  {rate:7.0f} tokens/s  {entry['memory'] / 2**20:6.0f} MiB  ours / this {ours / rate:.2f}"
                  f"  {json.dumps([round(r) for r in entry['rate']])}")


if __name__ == "__main__":
    main()
