"""Which figures the gradient experiments have; figure_numbers.py reads their numbers. Usage: … BINARY"""

import pathlib
import subprocess
import sys
import unittest

from periscope_process import SMALL, SWEEPS, SharedFolderTest, run
from plotting import ROOT, figures_of  # first of what needs packages

# isort: split
import numpy as np
from PIL import Image

from plots import crossover, reader
from plots.dataset import fact

# command, file, figures
RUNS = ((["propagate", "--backward"], "propagate", ["overview", "gradient", "weight-gradients-gaussian"]),
        (["gradients", "depth"], "gradient_depth", ["gradient-vs-depth"]),
        (["gradients", "attenuation"], "gradient_attenuation", ["attenuation"]),
        (["gradients", "identity-path"], "identity_path", ["identity-path"]),
        (["gradients", "score-path"], "score_path", ["score-share", "score-path"]),
        (["gradients", "crossover"], "gradient_crossover", ["crossover"]))


class GradientPlots(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.folder / "small.toml"
        config.write_text(SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]') + SWEEPS)
        cls.files = {}
        for command, file, _ in RUNS:
            done = run(*command, "--config", config, "--out", cls.folder / "results", "--quiet")
            assert done.returncode == 0, done.stderr
            cls.files[file] = reader.read(cls.folder / "results" / f"{file}.nc")

    def test_every_figure_is_written(self):
        done = subprocess.run([sys.executable, "-m", "plots", self.folder / "results",
                               "--out", self.folder / "figures"],
                              capture_output=True, text=True, cwd=ROOT, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = {pathlib.Path(name) for name in done.stdout.splitlines()}
        for _, file, figures in RUNS:
            for name in figures:
                for kind in ("png", "svg"):
                    self.assertIn(self.folder / "figures" / f"{file}-{name}.{kind}", written)
                with Image.open(self.folder / "figures" / f"{file}-{name}.png") as image:
                    self.assertGreater(len(np.unique(np.asarray(image.convert("L")))), 50, f"{name} is not blank")
        of_other_runs = [p.name for p in written if p.name.split("-")[0] != "propagate"]
        self.assertEqual(len(of_other_runs), 3 * sum(len(f) for _, file, f in RUNS if file != "propagate"),
                         "a file is drawn by its own figures only")

        (crossing,) = figures_of(crossover, self.files["gradient_crossover"]).values()
        self.assertIn(fact(self.files["gradient_crossover"], "order_claim"), crossing.caption)


if __name__ == "__main__":
    unittest.main()
