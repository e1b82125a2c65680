"""train: what its columns say, against numbers that are computed here. Usage: train_columns.py BINARY"""

import math
import statistics
import unittest

from periscope_process import run, sets
from safetensors_file import read_safetensors
from small_training import LAYERS, ONE, TrainTest

LARGEST_FP16 = 65504


def spikes_of_olmo(x):
    """OLMo-core's: above the mean of the last 128 by 6 standard deviations."""
    return sum(x[i] > statistics.fmean(x[i - 128:i]) + 6 * statistics.pstdev(x[i - 128:i]) for i in range(128, len(x)))


def robust_spikes(x):
    """Events whose logarithm is above the median of the last 128, or of the 16 at least that there are, by 6 scaled
    absolute deviations; a step at most 16 behind another one is of the same event."""
    logs = [math.log(v) for v in x]
    count, last = 0, -math.inf
    for i in range(16, len(x)):
        before = logs[max(0, i - 128):i]
        middle = statistics.median(before)
        if logs[i] > middle + 6 * 1.4826 * statistics.median(abs(v - middle) for v in before):
            count += i - last > 16
            last = i
    return count


def root_mean_square(x):
    return math.sqrt(sum(v * v for v in x) / len(x))


class Columns(TrainTest):
    def test_spikes(self):
        unsteady = sets("model.placement=pre", "train.steps=300", "train.batch=1", "train.lr=0.5", "train.clip=0")
        cell, = self.result(*unsteady).stacks()
        for series in ("loss", "grad_norm"):
            self.assertEqual((cell[f"{series}_spikes_olmo"], cell[f"{series}_spikes_robust"]),
                             (spikes_of_olmo(cell[series]), robust_spikes(cell[series])))
        self.assertNotEqual(cell["grad_norm_spikes_olmo"], cell["grad_norm_spikes_robust"], "they tell apart")

    def test_the_last_record_is_of_the_final_weights(self):
        folder = self.folder / "dump"
        cell, = self.result(*ONE, "--dump", folder, *sets("train.lr=0.05")).stacks()
        record = cell.each("record")[-1]
        final = {name: values for name, (_, values) in read_safetensors(folder / "final.safetensors").items()}
        for layer in range(LAYERS):
            for weight, module in (("q", "attention"), ("k", "attention"), ("gate", "mlp"), ("down", "mlp")):
                self.assertAlmostEqual(record.at(weight=weight)["weight_root_mean_square"][layer],
                                       root_mean_square(final[f"layers.{layer}.{module}.{weight}.weight"]), delta=1e-14)
            for place, module in enumerate(("attention", "mlp")):
                for norm in "ab":
                    gain = final[f"layers.{layer}.{module}.norm_{norm}.gain"]
                    at = 2 * layer + place
                    self.assertAlmostEqual(record[f"gain_rms_norm_{norm}"][at], root_mean_square(gain), delta=1e-14)
                    self.assertAlmostEqual(record[f"gain_mean_norm_{norm}"][at], statistics.fmean(gain), delta=1e-14)

    def test_the_margin_is_of_the_largest_sublayer(self):
        for placement in ("pre", "peri", "post"):
            cell, = self.result(*sets(f"model.placement={placement}")).stacks()
            for margin, largest in zip(cell.at(format="fp16")["margin"], cell["largest"], strict=True):
                self.assertAlmostEqual(margin * max(largest) / LARGEST_FP16, 1.0, delta=1e-12)

    def test_the_table(self):
        flags = (*ONE, *sets("train.lr=0.05"))
        result = self.result(*flags)
        cell, = result.stacks()
        lines = run(*self.command(*flags)).stderr.splitlines()
        row = next(line for line in lines if line.startswith("peri ")).split()
        theory, (first, *_, last) = cell["variance_predicted"], cell["variance_measured"]
        # At width 32 a seed differs from the limit by more than a rounding, and by less than half.
        self.assertLess(abs(math.log(theory[-1] / first[-1])), 0.4)
        self.assertEqual(row[2:7], [f"{cell['final_loss']:.4f}", f"{cell['validation_loss'][-1]:.4f}",
                                    f"{theory[-1]:.4g}", f"{first[-1]:.4g}", f"{last[-1]:.4g}"])

    def test_the_floor_is_that_of_as_many_labels_as_tokens(self):
        floors = {}
        for tokens in (1, 2, 8):
            floors[tokens] = self.result(*ONE, *sets(f"input.tokens={tokens}", "train.steps=1"))["loss_floor"]
        # With two symbols before it a label costs the entropy rate, the first one more: (first + (T - 1) rate) / T.
        rate = 2 * floors[2] - floors[1]
        self.assertAlmostEqual(floors[8], rate + (floors[1] - rate) / 8, delta=1e-12)
        self.assertGreater(floors[1], floors[2])


if __name__ == "__main__":
    unittest.main()
