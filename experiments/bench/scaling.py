"""Time and memory of a stack against its width, layers, tokens, threads and seeds: dense and matrix-free weights, and
PyTorch beside where there is an interpreter with it. A result file in the form that `plots` reads."""

import json
import math
from dataclasses import dataclass, replace

import runs

PRESET = "1.5B"  # whose proportions all stacks have: MLP 4 times the width, heads of 128, two to a key
BASE = {"width": 1024, "layers": 4, "tokens": 128, "seeds": 1}
IMPLEMENTATIONS = ("dense", "matrix-free", "PyTorch")
WAYS = ("forward", "backward")
KIND, VERSION = "bench", 1

# name: dimensions, units, meaning
SCHEMA = {
    "axis": (("point",), "", "what the series that the point belongs to varies"),
    "implementation": (("point",), "", "Periscope with dense weights or matrix-free ones (T21), or PyTorch"),
    "way": (("point",), "", "forward, or backward: forward and back"),
    "width": (("point",), "1", "width of the stack"),
    "layers": (("point",), "1", "layers of the stack"),
    "tokens": (("point",), "1", "tokens of the input"),
    "threads": (("point",), "1", "threads"),
    "seeds": (("point",), "1", "stacks, one after another"),
    "repeat_seconds": (("point", "repeat"), "s", "wall-clock time of all seeds"),
    "repeat_processor_seconds": (("point", "repeat"), "s", "processor time of all seeds, of all threads"),
    "peak_memory": (("point",), "byte", "the most memory that the process had resident"),
}
TEXTS = ("axis", "implementation", "way")
COUNTS = ("width", "layers", "tokens", "threads", "seeds")


@dataclass(frozen=True)
class Axis:
    """What is varied, its values in ascending order, and what is kept, if not as in BASE."""

    name: str
    values: tuple
    kept: dict
    share: float = 0.25  # of the limit of seconds: the width, which goes farthest, has all of it

    def up_to(self, last):
        return self if last is None else replace(self, values=tuple(v for v in self.values if v <= last))

    def growth(self, implementation):
        """The power of the value by which the cost is expected to grow: dense matrices are square in the width, Gram
        matrices in the tokens; at the lengths here attention's pattern costs little."""
        if self.name == "threads":
            return 0
        squares = {"width": ("dense", "PyTorch"), "tokens": ("matrix-free",)}
        return 2 if implementation in squares.get(self.name, ()) else 1


def doubling(first, last):
    return tuple(first << k for k in range(int(math.log2(last // first)) + 1))


def axes(cores, quick):
    """The series; of `threads` every number of cores up to 8, then powers of two."""
    few = tuple(range(1, min(cores, 8) + 1))
    return (
        Axis("width", doubling(256, 4096 if quick else 65536), {"layers": 1}, 1.0),
        Axis("layers", doubling(1, 8 if quick else 32), {}),
        Axis("tokens", doubling(32, 512 if quick else 4096), {}),
        Axis("threads", few + tuple(n for n in doubling(16, 1024) if n <= cores), {}),
        Axis("seeds", doubling(1, 4 if quick else 16), {}),
    )


@dataclass(frozen=True)
class Limits:
    """A point is left out if it is expected to take longer, or more memory, than this."""

    seconds: float
    bytes: float

    def allow(self, axis, implementation, value, before):
        """`before`: the point at the value before, None for the first."""
        if before is None:
            return True
        factor = (value / before[axis.name]) ** axis.growth(implementation)
        seconds, peak_bytes = factor * min(before["seconds"]), factor * before["peak_bytes"]
        return seconds <= axis.share * self.seconds and peak_bytes <= self.bytes


def measure(build, peer, plan, threads, repeats, limits, say):
    """The points of all axes in `plan`. `peer` may be empty. At every value the implementations take turns, so that
    all of them see the same machine."""
    points = []
    for axis in plan:
        for way in WAYS:
            last = {name: None for name in IMPLEMENTATIONS if name != "PyTorch" or peer}
            for value in axis.values:
                shape = {"threads": threads, **BASE, **axis.kept, axis.name: value, "way": way}
                for name in list(last):
                    if not limits.allow(axis, name, value, last[name]):
                        del last[name]
                        continue
                    last[name] = one_point(build, peer, name, shape, repeats, last[name])
                    points.append({"axis": axis.name, "implementation": name, **last[name]})
                    say(points[-1])
    return points


def one_point(build, peer, implementation, shape, repeats, before):
    options = {"repeats": repeats, "warm_up": before is None or min(before["seconds"]) < 1.0}
    weights = "matrix-free" if implementation == "matrix-free" else "dense"
    if implementation != "PyTorch":
        return runs.ours(build, preset=PRESET, weights=weights, **shape, **options)
    of_ours = runs.shape_of(build, preset=PRESET, **shape)
    return of_ours | runs.peers(peer, of_ours, **options)


def columns(points):
    """The result's columns by name."""
    found = {name: [point[name] for point in points] for name in TEXTS + COUNTS}
    found["repeat_seconds"] = [point["seconds"] for point in points]
    found["repeat_processor_seconds"] = [point["processor_seconds"] for point in points]
    found["peak_memory"] = [point["peak_bytes"] for point in points]
    return found


def write(path, points, origin):
    """`origin`: the file's attributes beside its kind: version, commit, cpu and whatever else says where it is from."""
    import netCDF4

    values = columns(points)
    temporary = path.with_name(f".{path.name}.part")
    with netCDF4.Dataset(temporary, "w", format="NETCDF4") as data:
        attributes = {"program": "periscope", "result": KIND, "result_version": VERSION, **origin}
        config = {"preset": PRESET, "base": BASE}
        data.setncatts({**attributes, "config": json.dumps(config)})
        data.createDimension("point", len(points))
        data.createDimension("repeat", max(len(row) for row in values["repeat_seconds"]))
        for name, (dimensions, units, meaning) in SCHEMA.items():
            kind = str if name in TEXTS else "i8" if name in COUNTS else "f8"
            variable = data.createVariable(name, kind, dimensions)
            variable.setncatts({"units": units, "long_name": meaning})
            for i, value in enumerate(values[name]):
                variable[i] = value
    temporary.replace(path)
