"""Training in Python: records while it runs, and an end before the last step. Usage: train_test.py"""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import xarray as xr
from studies import SMALL

import periscope as ps

TWINS = {**SMALL, "model.placement": ["pre", "peri"], "train.steps": 12, "train.batch": 2, "train.record_every": 3}


def settled(ds: xr.Dataset) -> xr.Dataset:
    return ds.assign_attrs(circumstances="")


class Train(unittest.TestCase):
    def test_a_callback_sees_every_record_and_changes_nothing(self) -> None:
        seen: list[ps.Record] = []
        ds = ps.train(TWINS, corpus="synthetic", callback=seen.append)
        xr.testing.assert_identical(settled(ds), settled(ps.train(TWINS, corpus="synthetic")))
        self.assertNotIn("stopped_early", ds.attrs)
        for placement in ("pre", "peri"):
            own = [record for record in seen if record.placement == placement]
            self.assertEqual([record.step for record in own], [0, 1, 2, 3, 5, 6, 9, 10, 12])
            self.assertEqual({record.steps for record in own}, {12})
            self.assertTrue(np.isnan(own[0].loss))
            loss = ds.loss.sel(placement=placement).squeeze().values
            steps = np.array([record.step for record in own[1:]])
            np.testing.assert_array_equal([record.loss for record in own[1:]], loss[steps - 1])
            self.assertIn("validation_loss", own[0].values)

    def test_false_ends_a_stack_there(self) -> None:
        whole = ps.train(TWINS, corpus="synthetic")
        ended = ps.train(TWINS, corpus="synthetic", callback=lambda r: r.placement == "peri" or r.step < 6)
        self.assertEqual(ended.attrs["stopped_early"], 1)
        for placement, steps in (("pre", 6), ("peri", 12)):
            loss = ended.loss.sel(placement=placement).squeeze().values
            np.testing.assert_array_equal(loss[:steps], whole.loss.sel(placement=placement).squeeze().values[:steps])
            self.assertTrue(np.isnan(loss[steps:]).all())
        self.assertTrue(np.isfinite(ended.validation_loss.sel(placement="peri").values).all())

    def test_a_stack_that_ended_early_goes_on_from_its_state(self) -> None:
        """Its state is there, as the call did not come to its end: another stack failed."""

        def ends_one_and_fails(record: ps.Record) -> bool:
            if record.placement == "peri" and record.step == 9:
                raise LookupError(record.run)
            return record.placement == "peri" or record.step < 6

        with tempfile.TemporaryDirectory() as out:
            with self.assertRaises(LookupError):
                ps.train(TWINS, corpus="synthetic", out=out, threads=1, callback=ends_one_and_fails)
            seen: list[ps.Record] = []
            again = ps.train(TWINS, corpus="synthetic", out=out, threads=1, callback=seen.append)
            xr.testing.assert_identical(settled(again), settled(ps.train(TWINS, corpus="synthetic")))
            self.assertGreaterEqual(min(record.step for record in seen if record.placement == "pre"), 6)

    def test_after_an_early_end_a_call_without_callback_trains_to_the_end(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            ended = ps.train(TWINS, corpus="synthetic", out=out, callback=lambda record: record.step < 6)
            self.assertEqual(ps.open(Path(out) / "train.nc").attrs["stopped_early"], 1)
            self.assertEqual(ended.attrs["stopped_early"], 1)
            again = ps.train(TWINS, corpus="synthetic", out=out)
            xr.testing.assert_identical(settled(again), settled(ps.train(TWINS, corpus="synthetic")))
            self.assertEqual([path.name for path in Path(out).iterdir()], ["train.nc"])

    def test_exceptions_of_a_callback_come_through(self) -> None:
        def bad(record: ps.Record) -> None:
            raise LookupError(record.run)

        with self.assertRaises(LookupError):
            ps.train(TWINS, corpus="synthetic", callback=bad)
        with tempfile.TemporaryDirectory() as out:
            def late(record: ps.Record) -> None:
                if record.step == 9:
                    raise LookupError(record.run)

            with self.assertRaises(LookupError):
                ps.train(TWINS, corpus="synthetic", out=out, callback=late)
            ds = ps.train(TWINS, corpus="synthetic", out=out)  # goes on from the saved states
            xr.testing.assert_identical(settled(ds), settled(ps.train(TWINS, corpus="synthetic")))


if __name__ == "__main__":
    unittest.main()
