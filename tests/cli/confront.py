"""A theory that is told something wrong, or has a mistake planted in it. Usage: confront.py BINARY"""

import pathlib
import tempfile
import unittest

from periscope_process import SMALL, run, run_json

REFUSED = [
    ("run.seeds=3", ["--theory-set run.seeds=3", "model, init, input or theory"]),
    ("model.layers=3", ["model.layers = 3", "expected 2"]),
    ("input.tokens=4", ["input.tokens = 4", "expected 6"]),
    ("input.kind=tokens", ["input.kind = tokens", "expected gaussian"]),
    ('model.placement=["pre","peri","post"]', ["model.placement", "3 placements", "2"]),
    ("model.rpe=false", ["unknown key model.rpe", "nearest is model.rope"]),
    ("model.rope=3", ["model.rope = 3", "true or false"]),
    ("model.rope", ["--theory-set model.rope", "key=value"]),
    ("theory.fault=beta", ["theory.fault", "beta0", "depth-constant"]),
    ("theory.fault=query-gradient", ["theory.fault", "run.backward"]),
    ("theory.fault=depth-constant", ["theory.fault", "lns"]),
]


class Confront(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "small.toml"
        self.config.write_text(SMALL)

    def propagate(self, *flags):
        return run_json("propagate", "--config", self.config, "--quiet", *flags)

    def test_theory_is_told_something_else_than_is_measured(self):
        truth, _ = self.propagate()
        told, code = self.propagate("--theory-set", "init.down_factor=3", "--theory-set", "model.rope=false")
        self.assertEqual(code, 4)
        for a, b in zip(truth["cells"], told["cells"]):
            self.assertEqual(a["second_moment"]["measured"], b["second_moment"]["measured"], "what is measured stays")
        pre = [cells["cells"][0]["sites"]["f_out"]["second_moment"]["predicted"] for cells in (truth, told)]
        self.assertAlmostEqual(pre[1][1] / pre[0][1], 9.0, delta=0.5)
        self.assertNotIn("theory_told", truth)
        self.assertEqual(told["theory_told"]["set"], ["init.down_factor=3", "model.rope=false"])
        self.assertEqual(told["theory_told"]["differences"][1],
                         {"model.rope": {"measured": True, "told": False},
                          "init.down_factor": {"measured": 1.0, "told": 3.0}})
        self.assertNotEqual(truth["provenance"]["config_sha256"], told["provenance"]["config_sha256"])

    def test_one_placement_is_told_of_all(self):
        told, _ = self.propagate("--theory-set", "model.placement=post")
        for cell in told["cells"]:
            self.assertAlmostEqual(cell["second_moment"]["predicted"][-1], 1.0, delta=1e-5)

    def test_the_table_and_the_file_say_so(self):
        done = run("propagate", "--config", self.config, "--set", "theory.fault=attention-output", "--out", self.folder)
        self.assertIn("PLANTED FAULT", done.stderr)
        self.assertIn("attention-output", done.stderr)
        done = run("propagate", "--config", self.config, "--theory-set", "model.gamma=2.0")
        self.assertIn("THEORY WAS TOLD: model.gamma = 2.0 (measured: 1.0)", done.stderr)
        self.assertNotIn("PLANTED", done.stderr)
        result, _ = self.propagate("--set", "theory.fault=beta0")
        self.assertEqual((result["theory_told"]["fault"], result["provenance"]["theory_told"]["fault"]),
                         ("beta0", "beta0"))
        self.assertIn(b"attention-output", (self.folder / "propagate.nc").read_bytes())

    def test_converge_is_told_too(self):
        flags = ["--quiet", "--set", "converge.widths=[32,64,128]", "--set", "converge.seeds=16"]
        truth, _ = run_json("converge", "--config", self.config, *flags)
        told, _ = run_json("converge", "--config", self.config, *flags, "--theory-set", "init.down_factor=3")
        self.assertLess(told["fits"][0]["bias"][-1], truth["fits"][0]["bias"][-1] - 0.1)

    def test_what_cannot_be_compared_is_refused(self):
        for setting, words in REFUSED:
            with self.subTest(setting=setting):
                done = run("propagate", "--config", self.config, "--theory-set", setting)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, "one line")
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
