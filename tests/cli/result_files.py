"""Every number of a result file is what this test computes itself, from the weights and activations that --dump writes
or from another run. Usage: result_files.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import SharedFolderTest, run
from plotting import plain  # first of what needs packages

# isort: split
import netCDF4
import numpy as np

from numpy_stack import STREAMS, Stack, angle, statistics

STACK = """
[model]
layers = 2
width = 16
heads = 4
kv_heads = 2
mlp_width = 24
vocab = 40
[init]
scheme = "lecun"
[input]
tokens = 5
correlation = 0.3
[run]
dtype = "f64"
seeds = 4
"""
# Two norms around each branch; and none but one behind the sum, with a stream and a branch that are scaled.
PLACEMENTS = {"peri": (True, True, False, 1.0, 1.0),
              "{A=true,B=false,C=true,alpha=0.8,beta=0.5}": (True, False, True, 0.8, 0.5)}
SITES = [signal for signal in STREAMS if signal != "x_out"]  # which runs over depth
# Both computations are f64 and lose less than 1e3 roundings of 1.1e-16 on the way through four sublayers of width 16;
# what is compared is O(1) relative to its own size but for means, which cancel.
TIGHT = {"rtol": 1e-11, "atol": 1e-13}


def variables(path):
    with netCDF4.Dataset(path) as data:
        return {name: plain(v[...]) for name, v in data.variables.items()}, {
            name: data.getncattr(name) for name in data.ncattrs()}  # fmt: skip


class Measured(SharedFolderTest):
    """propagate --backward against numpy, seed by seed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = cls.folder / "stack.toml"
        cls.config.write_text(STACK)
        cls.runs = {}
        for number, (placement, norms) in enumerate(PLACEMENTS.items()):
            setting = placement if placement.startswith("{") else f'"{placement}"'
            common = ["--config", cls.config, "--set", f"model.placement={setting}", "--backward"]
            out = cls.folder / str(number)
            cls.runs[placement] = {"common": common}
            done = run("propagate", *common, "--out", out, "--quiet")
            assert done.returncode == 0, done.stderr
            cls.runs[placement]["file"], cls.runs[placement]["attributes"] = variables(out / "propagate.nc")
            cls.runs[placement]["seeds"] = []
            for seed in range(4):
                done = run("propagate", *common, "--seed", seed, "--seeds", 1, "--dump", out / f"seed{seed}", "--quiet")
                assert done.returncode == 0, done.stderr
                cls.runs[placement]["seeds"].append(Stack(out / f"seed{seed}", norms))
        cls.runs["peri"]["every"] = [s.forward() for s in cls.runs["peri"]["seeds"]]
        other = next(p for p in PLACEMENTS if p != "peri")
        cls.runs[other]["every"] = [s.forward() for s in cls.runs[other]["seeds"]]

    def check(self, file, name, per_seed, place=()):
        """A variable against readings [seed, …]: mean and standard error (n - 1) over seeds."""
        per_seed = np.array(per_seed)
        got, error = (file[f"{name}_{v}"][(0, 0, *place)] for v in ("measured", "stderr"))
        np.testing.assert_allclose(got, per_seed.mean(0), **TIGHT, err_msg=f"{name}_measured at {place}")
        by_hand = per_seed.std(0, ddof=1) / np.sqrt(len(per_seed))
        # A standard error cancels digits of the readings that it is of.
        atol = 1e-11 * np.abs(per_seed).max()
        np.testing.assert_allclose(error, by_hand, rtol=1e-9, atol=atol, err_msg=f"{name}_stderr at {place}")

    def test_numpy_finds_the_streams_that_were_dumped(self):
        for r in self.runs.values():
            for stack, every in zip(r["seeds"], r["every"], strict=True):
                for s, signals in enumerate(every):
                    np.testing.assert_allclose(signals["x_out"], stack.seen[f"stream.{s + 1}"], **TIGHT)

    def test_every_statistic_at_every_site(self):
        for placement, r in self.runs.items():
            depths = [[e[0]["x_in"], *(signals["x_out"] for signals in e)] for e in r["every"]]
            for name in statistics(depths[0][0]):
                with self.subTest(placement=placement, statistic=name):
                    self.check(r["file"], name, [[statistics(x)[name] for x in streams] for streams in depths])
                    for i, site in enumerate(SITES):
                        self.assertEqual(site, r["file"]["site"][i])
                        self.check(r["file"], f"site_{name}",
                                   [[statistics(signals[site])[name] for signals in e] for e in r["every"]], (i,))

    def test_every_seed_of_the_stream(self):
        for placement, r in self.runs.items():
            depths = [[e[0]["x_in"], *(signals["x_out"] for signals in e)] for e in r["every"]]
            self.assertEqual(r["file"]["seed"].tolist(), [0, 1, 2, 3])
            for name in ("second_moment", "variance"):
                by_hand = [[statistics(x)[name] for x in streams] for streams in depths]
                np.testing.assert_allclose(r["file"][f"{name}_per_seed"][0, 0], by_hand, **TIGHT, err_msg=placement)
            logs = r["file"]["log_grad_sq_per_seed"][0, 0]
            np.testing.assert_allclose(logs.mean(axis=0), r["file"]["log_grad_sq_measured"][0, 0], rtol=1e-12)
            gradients = [stack.seen["grad.stream.2"] for stack in r["seeds"]]
            squares = [(g**2).sum() / len(g) for g in gradients]
            np.testing.assert_allclose(logs[:, 2], np.log(squares), rtol=1e-9)

    def test_branches_and_angles(self):
        for placement, r in self.runs.items():
            alpha, beta = PLACEMENTS[placement][3:]
            ratio, cosine = [], []
            for e in r["every"]:
                size = {n: [np.linalg.norm(s[n], axis=-1) for s in e] for n in ("B_out", "x_in")}
                ratio.append([(beta * b / (alpha * x)).mean() for b,
                              x in zip(size["B_out"], size["x_in"], strict=True)])
                cosine.append([((s["B_out"] * s["x_in"]).sum(-1) / b / x).mean()
                               for s, b, x in zip(e, size["B_out"], size["x_in"], strict=True)])
            with self.subTest(placement=placement):
                self.check(r["file"], "site_branch_ratio", ratio, (3,))
                self.check(r["file"], "site_branch_cosine", cosine, (3,))
                depths = [[e[0]["x_in"], *(signals["x_out"] for signals in e)] for e in r["every"]]
                by_hand = np.mean([[[angle(a, b) for b in d] for a in d] for d in depths], axis=0)
                # arccos near 1 has half of the digits: its slope there is 1/sqrt(2 (1 - cosine)).
                np.testing.assert_allclose(r["file"]["angular_distance_measured"][0, 0], by_hand, atol=1e-7,
                                           err_msg="angular_distance_measured")

    def test_the_largest_entries(self):
        r = self.runs["peri"]
        for i, site in enumerate([*SITES, "x_out"]):
            for s in range(4):
                every = np.concatenate([np.abs(e[s][site]).ravel() for e in r["every"]])
                count = min(100, every.size)
                name, place = ("top_magnitudes", s + 1) if site == "x_out" else ("site_top_magnitudes", (i, s))
                shown = r["file"][name][0, 0][place][:count]
                np.testing.assert_allclose(shown, np.sort(every)[::-1][:count], **TIGHT, err_msg=f"{site} {s}")

    def test_every_gradient_at_every_site(self):
        r = self.runs["peri"]
        gradients = {name: [[stack.gradient(e, s, name) for s in range(4)]
                            for stack, e in zip(r["seeds"], r["every"], strict=True)] for name in STREAMS}
        for i, site in enumerate(SITES):
            squares = [[(g**2).sum() / len(g) for g in of_seed] for of_seed in gradients[site]]
            with self.subTest(site=site):
                self.check(r["file"], "site_grad_sq", squares, (i,))
                self.check(r["file"], "site_log_grad_sq", np.log(squares), (i,))
        at_input = [[(g[0]**2).sum() / len(g[0])] for g in gradients["x_in"]]
        over_depth = [[*a, *[(g**2).sum() / len(g) for g in of_seed]]
                      for a, of_seed in zip(at_input, gradients["x_out"], strict=True)]
        self.check(r["file"], "grad_sq", over_depth)
        self.check(r["file"], "log_grad_sq", np.log(over_depth))

    def test_score_shares(self):
        r = self.runs["peri"]
        shares = []
        for stack, e in zip(r["seeds"], r["every"], strict=True):
            scored, valued = ([(stack.gradient(e, s, name)**2).sum() for s in (0, 2)] for name in ("scored", "valued"))
            shares.append([a / (a + b) for a, b in zip(scored, valued, strict=True)])
        self.check(r["file"], "site_score_share", shares, (1, slice(None, None, 2)))
        self.assertTrue(np.isnan(r["file"]["site_score_share_measured"][0, 0, 1, 1::2]).all(), "an MLP has no scores")

    def test_gradients_of_matrices(self):
        for placement, r in self.runs.items():
            for w, name in enumerate(r["file"]["weight"]):
                module = "mlp" if name in ("gate", "up", "down") else "attention"
                squares = [[(s.seen[f"grad.weight.layers.{l}.{module}.{name}.weight"]**2).sum() for l in range(2)]
                           for s in r["seeds"]]
                with self.subTest(placement=placement, matrix=name):
                    self.check(r["file"], "weight_grad_sq", squares, (w,))
                    self.check(r["file"], "weight_log_grad_sq", np.log(squares), (w,))


if __name__ == "__main__":
    unittest.main()
