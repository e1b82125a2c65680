"""Counts the lines of every part ("room") of the source tree, and fails above a limit.

Counts the .h, .cpp, .cu, .cuh and .py files under git. A limit is the count at the last change that lowered it,
rounded up to the next hundred: a change that shrinks a room lowers its limit. "wanted" is the goal.
"""

import subprocess

import pytest

from program import ROOT

# room: folders, limit, goal ("wanted")
ROOMS = {
    "sim": (["sim/"], 23800, 22200),
    "theory": (["theory/"], 12200, 12300),
    "engine": (["experiments/engine/"], 10500, 9600),
    "engine: settings": (["experiments/engine/settings/"], 2200, 2000),
    "engine: judge": (["experiments/engine/judge/"], 2300, 2200),
    "engine: result": (["experiments/engine/result/"], 1200, 1200),
    "engine: run, cache": ([f"experiments/engine/{room}/" for room in ("run", "cache", "study")], 3900, 3000),
    "engine: training": (["experiments/engine/training/"], 1100, 1150),
    "studies": (["experiments/studies/"], 13800, 12600),
    "sweeps, ledger": (["experiments/sweeps/", "experiments/ledger/"], 3300, 2400),
    "app": (["experiments/app/"], 3500, 3300),
    "plots": (["plots/"], 5000, 5000),
    "python": (["python/"], 3900, 3200),
    "bench": (["experiments/bench/"], 1300, 1200),
    "product": ([""], 77400, 68000),
    "tests": (["tests/"], 42100, 38000),
}
COUNTED = (".h", ".cpp", ".cu", ".cuh", ".py")


def lines_of(source):
    """Returns the number of lines of every counted file under git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=source, capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.split("\0") if name.endswith(COUNTED) and (source / name).is_file()]
    return {name: (source / name).read_bytes().count(b"\n") for name in files}


def totals(lines):
    """Returns the number of lines of every room."""
    found = {}
    for room, (folders, *_) in ROOMS.items():
        found[room] = sum(count for name, count in lines.items() if name.startswith(tuple(folders))
                          and (room != "product" or not name.startswith("tests/")))
    return found


def test_no_room_is_above_its_limit():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    found = totals(lines_of(ROOT))
    print(f"{'':20}{'now':>8}{'limit':>8}{'wanted':>8}")
    for room, (_, limit, wanted) in ROOMS.items():
        print(f"{room:20}{found[room]:8}{limit:8}{wanted:8}")
    assert [room for room in ROOMS if found[room] == 0] == []
    assert [room for room, (_, limit, _) in ROOMS.items() if found[room] > limit] == [], "remove code in these rooms"
