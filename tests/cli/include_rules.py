"""Checks that #include goes one way between the rooms of the house. Usage: include_rules.py SOURCE_DIR"""

import pathlib
import re
import sys
import unittest

# room: the rooms that it may include, besides itself
ALLOWED = {
    "sim/numerics": set(),
    "sim/spec": {"sim/numerics"},
    "sim/files": {"sim/numerics", "sim/spec"},
    "sim/random": {"sim/numerics", "sim/spec"},
    "sim/core": {"sim/numerics", "sim/spec", "sim/random"},
    "sim/reference": {"sim/numerics", "sim/spec", "sim/random", "sim/core"},
    "sim/cpu": {"sim/numerics", "sim/spec", "sim/random", "sim/core"},
    "sim/emulated": {"sim/numerics", "sim/spec", "sim/random", "sim/core"},
    "sim/cuda": {"sim/numerics", "sim/spec", "sim/random", "sim/core"},
    "sim/no_cuda": {"sim/numerics", "sim/spec", "sim/random", "sim/core", "sim/cuda"},
    "sim/backends": {"sim/numerics", "sim/spec", "sim/core", "sim/reference", "sim/cpu", "sim/cuda"},
    "sim/model": {"sim/numerics", "sim/spec", "sim/random", "sim/core"},
    "sim/measure": {"sim/numerics", "sim/spec", "sim/random", "sim/core", "sim/model"},
    "sim/checkpoint": {"sim/numerics", "sim/spec", "sim/files", "sim/random", "sim/core", "sim/model"},
    "sim/train": {"sim/numerics", "sim/spec", "sim/files", "sim/random", "sim/core", "sim/model"},
    "theory": {"sim/numerics", "sim/spec"},
    "experiments": {"sim/numerics", "sim/spec", "sim/files", "sim/random", "sim/core", "sim/reference", "sim/emulated", "sim/backends", "sim/model",
                    "sim/measure", "sim/checkpoint", "sim/train", "theory"},
}
# where a library may not be seen
FORBIDDEN = {"sim/model": ("Eigen/", "omp.h", "cuda"), "sim/measure": ("Eigen/", "omp.h", "cuda"),
             "sim/reference": ("Eigen/", "omp.h"), "sim/emulated": ("Eigen/", "omp.h"), "sim/spec": ("Eigen/",), "sim/numerics": ("Eigen/",), "sim/core": ("Eigen/", "cuda")}
# what experiments share knows none of them
SHARED = re.compile(r"experiments/(command|common|agreement|estimate|results)/")
SECTIONS = "experiments/catalog/sections.h"  # a configuration file has those of all
# the memory behind tensors, which only backends touch
ELEMENTS = "sim/core/storage.h"
MAY_TOUCH_ELEMENTS = {"sim/core", "sim/reference", "sim/cpu", "sim/emulated", "sim/cuda"}


def room_of(path):
    if path.startswith("sim/backends."):
        return "sim/backends"
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "sim" else parts[0]


def violations(files):
    """Lines "FILE: why" for a mapping from path to text."""
    found = []
    for path, text in files.items():
        room = room_of(path)
        for quoted, angled in re.findall(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', text, re.M):
            if quoted and room_of(quoted) != room and room_of(quoted) not in ALLOWED[room]:
                found.append(f"{path}: {room} may not include {quoted}")
            if quoted == ELEMENTS and room not in MAY_TOUCH_ELEMENTS:
                found.append(f"{path}: only backends may include {quoted}")
            own = quoted.startswith("experiments/") and not SHARED.match(quoted) and quoted != SECTIONS
            if SHARED.match(path) and own:
                found.append(f"{path}: what experiments share may not include {quoted}")
            for library in FORBIDDEN.get(room, ()):
                if library in angled:
                    found.append(f"{path}: {room} may not see {angled}")
            if room == "sim/cuda" and not path.startswith("sim/cuda/on_host/") and "Eigen/" in angled:
                found.append(f"{path}: only sim/cuda/on_host may see {angled}: nvcc compiles the rest")
        if room != "sim/cuda" and re.search(r"^\s*#\s*if.*(CUDA|HIP|GPU)", text, re.M):
            found.append(f"{path}: backend #if outside sim/cuda")
    return found


class IncludeRules(unittest.TestCase):
    def test_tree_keeps_them(self):
        files = {str(p.relative_to(SOURCE)): p.read_text() for top in ("sim", "theory", "experiments")
                 for p in (SOURCE / top).rglob("*") if p.suffix in (".h", ".cpp", ".in")}
        self.assertGreater(len(files), 50)
        self.assertEqual(violations(files), [])

    def test_tests_print_alike(self):
        """Two translation units of one program that see different `StringMaker`s would break the one-definition rule."""
        for path in (SOURCE / "tests").rglob("*"):
            if path.suffix in (".h", ".cpp") and path.name != "doctest.h":
                self.assertNotIn("<doctest/doctest.h>", path.read_text(), f"{path}: expected tests/support/doctest.h")

    def test_a_planted_violation_is_found(self):
        planted = {"theory/forward.cpp": '#include "sim/model/stack.h"\n', "sim/model/stack.cpp": "#include <Eigen/Core>\n",
                   "sim/model/loss.cpp": '#include "sim/core/storage.h"\n',
                   "sim/cpu/linear.cpp": '#include "experiments/catalog/list.h"\n#if PERISCOPE_CUDA\n#endif\n',
                   "sim/cuda/norm.cpp": "#include <Eigen/Core>\n", "sim/cuda/on_host/execution.cpp": "#include <Eigen/Core>\n",
                   "experiments/common/stacks.cpp": '#include "experiments/propagate/propagate.h"\n'}
        self.assertEqual(len(violations(planted)), 7)


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
