"""Connects records with training libraries and loggers. Libraries are imported on first use."""

import math
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from .recording import Recorder

_LOGGED = ("loss", "second_moment_measured", "maximum_measured", "grad_sq_measured", "weight_grad_sq_measured",
           "growth_branch_share", "attention_logit_maximum")  # fmt: skip


def trainer_callback(recorder: "Recorder") -> Any:
    """Returns a TrainerCallback of transformers that ends a step of ``recorder`` after every step of the optimizer::

        with ps.record(model, every=50) as recorder:
            Trainer(model, args, train_dataset=data, callbacks=[ps.trainer_callback(recorder)]).train()
    """
    from transformers import TrainerCallback

    class EndStep(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            recorder.step()

    return EndStep()


def lightning_callback(recorder: "Recorder") -> Any:
    """Returns a Callback of Lightning that ends a step of ``recorder`` after every step of the optimizer. Record the
    transformers model that is an attribute of the LightningModule."""
    package = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"

    class EndStep(import_module(package).Callback):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, *_: Any) -> None:
            self.steps = trainer.global_step

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step > self.steps:  # the batch was the last one of its step
                self.steps = trainer.global_step
                recorder.step()

    return EndStep()


def scalars(ds: "xr.Dataset", *columns: str) -> dict[str, float]:
    """Returns the finite numbers of a record of one step by name and position, such as
    ``{"loss": 3.1, "second_moment_measured/depth=2": 0.7}``, for loggers and JSON lines.

    ``columns`` default to the loss, the stream's second moments and maxima, the branches' shares, the squared gradients
    of the stream and of matrices, and the largest attention logits.
    """
    found = {}
    for column in columns or [name for name in _LOGGED if name in ds]:
        values = ds[column]
        for index in np.ndindex(values.shape):
            if math.isfinite(value := float(values.values[index])):
                place = ",".join(f"{dim}={ds[dim].values[i]}" for dim, i in zip(values.dims, index, strict=True))
                found[f"{column}/{place}" if place else column] = value
    return found
