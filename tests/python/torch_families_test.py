"""Records of models of transformers against probe of the same models as files, for every family. Skipped (exit code
77) without torch and transformers. Usage: torch_families_test.py"""

import sys
import tempfile
import unittest
from contextlib import nullcontext
from typing import Any

import numpy as np
import xarray as xr

try:
    import safetensors.torch  # noqa: F401  # before its types are others
    import torch
    from torch_models import all_in_double, models
except ImportError:
    print("skipped: the packages of python/requirements-torch.txt are not installed")
    sys.exit(77)

import periscope as ps

IDS = [5, 9, 2, 1, 7, 33, 60, 4, 12, 11, 50, 3]


def size_of(theirs: xr.Dataset, name: str) -> Any:
    """What a difference in a column is held against: cosines and logarithms 1, means the root mean square, all else the
    number itself."""
    if "cosine" in name or "log_" in name or "share" in name:
        return 1.0
    if name.endswith("mean_measured"):
        return np.sqrt(theirs[name.replace("mean_measured", "second_moment_measured")].values)
    return np.abs(theirs[name].values)


def worst(ours: xr.Dataset, theirs: xr.Dataset) -> tuple[float, str]:
    """The largest difference of two datasets in the measured columns that both have."""
    found = (0.0, "")
    for name in map(str, theirs.data_vars):
        if not name.endswith("_measured") or theirs[name].dtype.kind != "f":
            continue
        a, b = ours[name].values, theirs[name].values
        both = np.isfinite(a) & np.isfinite(b) & (a != b)
        if both.any():
            found = max(found, (float((np.abs(a - b) / size_of(theirs, name))[both].max()), name))
    return found


def missing(ours: xr.Dataset, theirs: xr.Dataset) -> list[str]:
    """The measured columns that the record lacks where probe has numbers."""
    return [str(name) for name in theirs.data_vars if str(name).endswith("_measured")
            and (np.isfinite(theirs[name].values) & ~np.isfinite(ours[name].values)).any()]  # fmt: skip


def recorded(model: Any, ids: list[list[int]], labels: Any = None) -> xr.Dataset:
    batch = torch.tensor(ids)
    with ps.record(model) as recorder:
        output = model(input_ids=batch, labels=batch if labels is None else labels)
        output.loss.backward()
    return recorder.datasets[0]


class Records(unittest.TestCase):
    def test_a_record_is_probe_of_the_saved_model(self) -> None:
        for dtype, tolerance, exactly in ((torch.float64, 1e-12, all_in_double), (torch.float32, 1e-5, nullcontext)):
            with exactly():
                for name, model in models(dtype):
                    with self.subTest(family=name, dtype=dtype):
                        self.compare(name, model, tolerance)

    def compare(self, name: str, model: Any, tolerance: float) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            ours = recorded(model, [IDS])
            words = {"labels": IDS} if name == "bert" else {}
            theirs = ps.probe(folder, tokens=IDS, backward=True, no_theory=True, **words)
        difference, column = worst(ours, theirs)
        print(f"{name} {model.dtype}: {difference:.1e} in {column}", flush=True)
        self.assertLess(difference, tolerance)
        self.assertEqual(missing(ours, theirs), [])

    def test_from_torch_is_the_saved_model(self) -> None:
        for name, model in models(torch.float32):
            with self.subTest(family=name), tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                words = {"tokens": IDS, "no_theory": True}
                a, b = ps.probe(ps.from_torch(model), **words), ps.probe(folder, **words)
                self.assertEqual(a.model.item(), type(model).__name__)
                a["model"] = b["model"]
                xr.testing.assert_identical(a.drop_attrs(deep=False), b.drop_attrs(deep=False))


if __name__ == "__main__":
    unittest.main()
