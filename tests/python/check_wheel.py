"""Checks a wheel without its sources. Usage: check_wheel.py PERISCOPE WHEEL"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SMALL = {"model.layers": 2, "model.width": 16, "model.heads": 2, "input.tokens": 6, "run.seeds": 4}
SMOKE = f"""
import sys
import periscope as ps
import xarray as xr
assert ps.__file__.startswith(sys.argv[1]), ps.__file__
ours = ps.propagate({SMALL!r}, backward=True, out=sys.argv[1] + "/ours")
theirs = ps.open(sys.argv[2])
for name in ("program_sha256", "circumstances"):
    ours, theirs = ours.assign_attrs({{name: ""}}), theirs.assign_attrs({{name: ""}})
xr.testing.assert_identical(ours, theirs)
ps.plot(ours, "variance").savefig(sys.argv[1] + "/variance.svg")
assert len(ps.verify(cases=20).statement) > 5
assert ps.gradients_depth(model={{"width": 16, "heads": 2, "vocab": 40}}, gradients={{"layers": [2, 3, 4]}}, seeds=4)
"""


def main(program, wheel):
    version = re.fullmatch(r"periscope-([0-9.]+)-cp310-abi3-manylinux_.*x86_64\.whl", wheel.name)[1]
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = set(archive.namelist())
        assert {n.split("/")[0] for n in names} <= {"periscope", "periscope.libs", f"periscope-{version}.dist-info"}
        assert names >= {f"periscope/{n}" for n in ("_periscope.abi3.so", "py.typed", "_periscope.pyi", "verbs.py",
                                                    "_keys.py", "plots/reader.py", "configs/power.toml")}
        assert not [n for n in names if re.search(r"__pycache__|\.(cpp|h)$|hdf5|netcdf|crypto|curl", n)]
        assert "Requires-Dist: xarray" in archive.read(f"periscope-{version}.dist-info/METADATA").decode()
        keys = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
        command = [program, "propagate", "--backward", "--quiet", "--out", f"{folder}/theirs", *keys]
        assert subprocess.run(command).returncode in (0, 4)
        archive.extractall(f"{folder}/site")
        subprocess.run([sys.executable, "-c", SMOKE, folder, f"{folder}/theirs/propagate.nc"], cwd=folder, check=True,
                       env={**os.environ, "PYTHONPATH": f"{folder}/site"})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
