"""A wheel away from its sources. Usage: wheel_test.py PERISCOPE WHEEL"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

PROGRAM = ""
WHEEL = Path()
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
print("all is well")
"""


class Wheel(unittest.TestCase):
    def test_it_is_what_its_name_says(self) -> None:
        self.assertRegex(WHEEL.name, r"^periscope-[0-9.]+-cp310-abi3-manylinux_.*x86_64\.whl$")
        with zipfile.ZipFile(WHEEL) as archive:
            names = archive.namelist()
            version = re.search(r"-([0-9.]+)-", WHEEL.name)
            assert version is not None
            metadata = archive.read(f"periscope-{version[1]}.dist-info/METADATA").decode()
        folders = {"periscope", "periscope.libs", f"periscope-{version[1]}.dist-info"}
        self.assertLessEqual({name.split("/")[0] for name in names}, folders)
        wanted = ("_periscope.abi3.so", "py.typed", "_periscope.pyi", "verbs.py", "_keys.py", "plots/reader.py",
                  "configs/power.toml")  # fmt: skip
        for name in wanted:
            self.assertIn(f"periscope/{name}", names)
        self.assertFalse([name for name in names if "__pycache__" in name or name.endswith((".cpp", ".h"))])
        self.assertFalse([name for name in names if re.search("hdf5|netcdf|crypto|curl", name)])
        self.assertIn("Requires-Dist: xarray", metadata)

    def test_it_works_elsewhere_with_the_programs_bits(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            keys = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
            command = [PROGRAM, "propagate", "--backward", "--quiet", "--out", f"{folder}/theirs", *keys]
            self.assertIn(subprocess.run(command).returncode, (0, 4))
            with zipfile.ZipFile(WHEEL) as archive:
                archive.extractall(f"{folder}/site")
            environment = {**os.environ, "PYTHONPATH": f"{folder}/site"}
            done = subprocess.run([sys.executable, "-c", SMOKE, folder, f"{folder}/theirs/propagate.nc"], cwd=folder,
                                  env=environment, capture_output=True, text=True)  # fmt: skip
            self.assertEqual((done.stdout, done.stderr), ("all is well\n", ""))


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    WHEEL = Path(sys.argv.pop(1)).resolve()
    unittest.main()
