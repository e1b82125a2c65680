"""Folders of the product (rooms) may include only the rooms listed here, so that #include has no cycles."""

import re

from program import ROOT

# Maps each room to the other rooms that it may include.
BASE = {"sim/base", "sim/numerics"}
SPEC = BASE | {"sim/spec"}
TENSORS = SPEC | {"sim/random", "sim/core"}
ALLOWED = {
    "sim/base": set(),
    "sim/numerics": {"sim/base"},
    "sim/files": BASE,
    "sim/spec": BASE,
    "sim/random": SPEC,
    "sim/core": SPEC | {"sim/random"},
    "sim/reference": TENSORS,
    "sim/cpu": TENSORS,
    "sim/emulated": TENSORS,
    "sim/cuda": TENSORS,
    "sim/no_cuda": TENSORS | {"sim/cuda"},
    "sim/backends": TENSORS | {"sim/reference", "sim/cpu", "sim/cuda"},
    "sim/model": TENSORS,
    "sim/measure": TENSORS | {"sim/model"},
    "sim/checkpoint": TENSORS | {"sim/files", "sim/model"},
    "sim/train": TENSORS | {"sim/files", "sim/model"},
    "theory/kernels": SPEC,
    "theory/norms": SPEC | {"theory/kernels", "theory/certify"},
    "theory/attention": SPEC | {"theory/kernels"},
    "theory/modules": SPEC | {"theory/kernels", "theory/norms", "theory/attention"},
    "theory/passes": SPEC | {"theory/kernels", "theory/norms", "theory/attention", "theory/modules"},
    "theory/width": SPEC | {"theory/kernels", "theory/norms", "theory/attention", "theory/modules"},
    "theory/formats": SPEC,
    "theory/predict": SPEC | {f"theory/{room}"
                              for room in ("kernels", "norms", "attention", "modules", "passes", "width")},
    "theory/first_steps": SPEC | {f"theory/{room}" for room in ("kernels", "norms", "attention", "modules", "width")},
    "theory/certify": SPEC | {"theory/kernels", "theory/norms"},
}
# rooms of sim/ and theory/ that every room of experiments/ may include
WINGS = set(ALLOWED) - {"sim/cpu", "sim/cuda", "sim/no_cuda"}
ENGINE = ["engine/settings", "engine/result", "engine/judge", "engine/cache", "engine/run", "engine/study",
          "engine/training"]  # each may include earlier ones
for place, name in enumerate(ENGINE):
    ALLOWED[f"experiments/{name}"] = WINGS | {f"experiments/{before}" for before in ENGINE[:place]}
ENGINE_ROOMS = {f"experiments/{name}" for name in ENGINE}
ALLOWED["experiments/sweeps"] = WINGS | ENGINE_ROOMS | {"experiments/studies"}
ALLOWED["experiments/ledger"] = ALLOWED["experiments/sweeps"] | {"experiments/sweeps"}
ALLOWED["experiments/app"] = ALLOWED["experiments/ledger"] | {"experiments/ledger"}
ALLOWED["experiments/app/tools"] = ALLOWED["experiments/app"] | {"experiments/app"}
ALLOWED["experiments/app/main.cpp"] = ALLOWED["experiments/app/tools"] | {"experiments/app/tools"}
ALLOWED["python/bindings"] = ALLOWED["experiments/app"]
ALLOWED["experiments/bench"] = ALLOWED["experiments/app"] | {"experiments/app", "sim/cuda"}
# libraries that rooms may not include
FORBIDDEN = {"sim/model": ("Eigen/", "omp.h", "cuda"), "sim/measure": ("Eigen/", "omp.h", "cuda"),
             "sim/reference": ("Eigen/", "omp.h"), "sim/emulated": ("Eigen/", "omp.h"), "sim/base": ("Eigen/",),
             "sim/spec": ("Eigen/",), "sim/numerics": ("Eigen/",), "sim/core": ("Eigen/", "cuda")}
# A study may run in any process, so it must not change process-wide state or use the command line.
PROCESS_WIDE = ("CLI/", "netcdf", "openssl", "signal", "sys/wait", "malloc.h")
LIBRARIES = ("experiments/studies", "experiments/sweeps", "experiments/ledger")
for name in (*ENGINE_ROOMS, *LIBRARIES):
    FORBIDDEN[name] = PROCESS_WIDE
FORBIDDEN["python/bindings"] = ("CLI/", "netcdf", "openssl", "sys/wait", "malloc.h")  # it blocks signals
PROCESS_WORDS = re.compile(r"/proc/self/exe|\bmallopt\b|\bgetenv\b|\bstd::exit\b|\bfork\("
                           r"|\bstd::(cout|cerr|clog|signal)\b|\bfmt::print\b|\bs?printf\("
                           r"|\bsigaction\b|\bcurrent_path\b|\bomp_set_\w+")
# Threads restores the number of threads.
RESTORED = {"experiments/engine/run/threads.h": "omp_set_num_threads"}
# Studies may not include each other. Files directly in experiments/studies include all studies.
STUDY = re.compile(r"experiments/studies/(\w+)/")
# The header with access to tensors' memory, which only backends may include.
ELEMENTS = "sim/core/storage.h"
MAY_INCLUDE_ELEMENTS = {"sim/core", "sim/reference", "sim/cpu", "sim/emulated", "sim/cuda"}


def room_of(path):
    if path.startswith("sim/backends."):
        return "sim/backends"
    parts = path.split("/")
    if path.startswith("experiments/app/tools/") or path == "experiments/app/main.cpp":
        return "/".join(parts[:3])
    if parts[0] == "experiments":
        return "/".join(parts[:3]) if parts[1] == "engine" else "/".join(parts[:2])
    return "/".join(parts[:2]) if parts[0] in ("sim", "theory", "python") else parts[0]


def allowed(room):
    """Returns the rooms that files of a room may include."""
    return WINGS | ENGINE_ROOMS if room == "experiments/studies" else ALLOWED[room]


def violations(files):
    """Returns lines "FILE: reason" for a mapping from path to text."""
    found = []
    for path, text in files.items():
        room = room_of(path)
        for quoted, angled in re.findall(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', text, re.M):
            if quoted and room_of(quoted) != room and room_of(quoted) not in allowed(room):
                found.append(f"{path}: {room} may not include {quoted}")
            if quoted == ELEMENTS and room not in MAY_INCLUDE_ELEMENTS:
                found.append(f"{path}: only backends may include {quoted}")
            mine, other = STUDY.match(path), STUDY.match(quoted)
            if mine and other and mine[1] != other[1]:
                found.append(f"{path}: no study may include another, as {quoted}")
            for library in FORBIDDEN.get(room, ()):
                if library in angled:
                    found.append(f"{path}: {room} may not include {angled}")
            if STUDY.match(path) and quoted == "experiments/studies/studies.h":
                found.append(f"{path}: no study may include {quoted}, which includes them all")
            if room == "sim/cuda" and not path.startswith("sim/cuda/on_host/") and "Eigen/" in angled:
                found.append(f"{path}: only sim/cuda/on_host may include {angled}: nvcc compiles the rest")
        if room in ENGINE_ROOMS or room in (*LIBRARIES, "python/bindings"):
            for word in PROCESS_WORDS.finditer(text):
                if RESTORED.get(path) != word[0]:
                    found.append(f"{path}: {room} may not use {word[0]}: it belongs to the whole process")
        if room != "sim/cuda" and re.search(r"^\s*#\s*if.*(CUDA|HIP|GPU)", text, re.M):
            found.append(f"{path}: backend #if outside sim/cuda")
    return found


def test_the_tree_has_no_violation():
    files = {str(p.relative_to(ROOT)): p.read_text() for top in ("sim", "theory", "experiments", "python")
             for p in (ROOT / top).rglob("*") if p.suffix in (".h", ".cpp", ".in")}
    assert len(files) > 50
    assert violations(files) == []


def test_all_tests_use_the_same_string_makers():
    """Two translation units of one program that see different `StringMaker`s break the one-definition rule."""
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in (".h", ".cpp") and path.name != "doctest.h":
            assert "<doctest/doctest.h>" not in path.read_text(), f"{path}: expected tests/support/doctest.h"


def test_planted_violations_are_found():
    planted = {"theory/passes/forward.cpp": '#include "sim/model/stack.h"\n#include "theory/certify/bounds.h"\n',
               "sim/model/stack.cpp": '#include <Eigen/Core>\n#include "sim/core/storage.h"\n',
               "sim/cpu/linear.cpp": "#if PERISCOPE_CUDA\n#endif\n",
               "sim/cuda/norm.cpp": "#include <Eigen/Core>\n",
               "sim/cuda/on_host/execution.cpp": "#include <Eigen/Core>\n",
               "experiments/engine/settings/config.cpp": '#include "experiments/engine/judge/cell.h"\n',
               "experiments/studies/verify/study.cpp": '#include "experiments/app/command.h"\n#include <CLI/CLI.hpp>\n',
               "experiments/app/command.cpp": '#include "experiments/app/tools/list.h"\n',
               "experiments/studies/probe/run.cpp": ('#include "experiments/studies/studies.h"\n'
                                                     '#include "experiments/studies/verify/verify.h"\n'
                                                     'void f() { fmt::print("x"); }\n'),
               "experiments/engine/run/threads.h": "omp_set_num_threads(1);\n",
               "experiments/engine/training/train.cpp": "omp_set_num_threads(1);\n",
               "python/bindings/module.cpp": '#include "experiments/app/command.h"\nvoid f() { std::cout << 1; }\n'}
    assert len(violations(planted)) == 16
