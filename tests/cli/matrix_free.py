"""run.weights: stacks without matrices (T21), as a user meets them. Usage: matrix_free.py BINARY"""

import unittest

import numpy as np

from numpy_stack import Stack
from periscope_process import FolderTest, run, run_result

FREE = ("--set", "run.weights=matrix-free")


class MatrixFree(FolderTest):
    def result(self, *flags, command="propagate"):
        result, code = run_result(command, "--config", self.config, "--quiet", *flags)
        self.assertEqual(code, 0)
        return result

    def test_the_result_says_what_was_used(self):
        wide = ("--set", "model.width=1024", "--set", "model.mlp_width=4096")
        for flags, used in [((), "dense"), (FREE, "matrix-free"), (("--set", "run.weights=dense"), "dense"),
                            (wide, "matrix-free"), ((*wide, "--set", "run.weights=dense"), "dense")]:
            with self.subTest(flags=flags):
                result = self.result("--seeds", 1, "--set", "model.placement=peri", *flags)
                self.assertEqual(result["weights"], [[used]])
        ladder = self.result("--set", "ladder.widths=[32,64,128,4096]", "--set", "ladder.seeds=8", command="ladder")
        self.assertEqual(ladder["weights"], ["dense", "dense", "dense", "matrix-free"])

    def test_a_dense_stack_of_the_dumped_matrices_is_the_same_stack(self):
        for placement, rule in (("pre", (True, False, False, 1, 1)), ("peri", (True, True, False, 1, 1)),
                                ("post", (False, False, True, 1, 1))):
            for kind in ("gaussian", "tokens"):
                with self.subTest(placement=placement, kind=kind):
                    folder = self.folder / f"{placement}-{kind}"
                    done = run("propagate", "--config", self.config, "--quiet", "--seeds", 1, "--backward", "--dump",
                               folder, "--set", f"model.placement={placement}", "--set", f"input.kind={kind}",
                               "--set", "model.vocab=3", *FREE)  # fmt: skip
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    stack = Stack(folder, rule)
                    signals = stack.forward()
                    for s, seen in enumerate(signals):
                        np.testing.assert_allclose(stack.seen[f"stream.{s + 1}"], seen["x_out"], rtol=0, atol=1e-10)
                    self.assertAlmostEqual(stack.seen["loss"][0], stack.loss(signals[-1]["x_out"]), delta=1e-10)
                    for s in (0, 3):
                        expected = stack.gradient(signals, s, "x_in")
                        np.testing.assert_allclose(stack.seen[f"grad.stream.{s}"], expected, rtol=0, atol=1e-10)

    def test_threads_do_not_change_a_bit(self):
        flags = ("--backward", "--seeds", 3, "--set", "model.width=64", *FREE)
        self.assertEqual(*(self.result(*flags, "--threads", threads).data() for threads in (1, 3)))


if __name__ == "__main__":
    unittest.main()
