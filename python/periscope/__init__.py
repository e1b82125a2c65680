"""Periscope: how the placement of normalization layers shapes signals in deep residual stacks.

    import periscope as ps
    ds = ps.propagate({"model": {"placement": ["pre", "peri"], "layers": 6, "width": 128, "heads": 4}}, backward=True)
    ds.second_moment_measured.sel(placement="peri").plot(x="depth")
    ps.verdicts(ds)
    ps.plot(ds, "variance")

Every study of the program is a function here that returns an xarray.Dataset with measurements, predictions and
verdicts. Submodules are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._processor import require_instructions

if TYPE_CHECKING:
    from ._check import Finding as Finding
    from ._check import WeightsError as WeightsError
    from ._check import assert_healthy as assert_healthy
    from ._check import check as check
    from ._nulls import at_init as at_init
    from ._nulls import at_scales as at_scales
    from ._periscope import Snapshot as Snapshot
    from ._run import Record as Record
    from ._sweep import Sweep as Sweep
    from ._sweep import sweep as sweep
    from ._verdicts import verdicts as verdicts
    from .config import Config as Config
    from .dataset import open as open
    from .describe import cite as cite
    from .describe import columns as columns
    from .describe import keys as keys
    from .describe import placements as placements
    from .describe import recipes as recipes
    from .errors import CheckFailed as CheckFailed
    from .errors import ConfigError as ConfigError
    from .errors import Error as Error
    from .errors import InputError as InputError
    from .errors import Stopped as Stopped
    from .integrations import lightning_callback as lightning_callback
    from .integrations import scalars as scalars
    from .integrations import trainer_callback as trainer_callback
    from .model import Model as Model
    from .model import from_torch as from_torch
    from .plots import figures as figures
    from .plots import plot as plot
    from .recording import Recorder as Recorder
    from .recording import record as record
    from .verbs import *  # noqa: F403

    __version__: str

require_instructions()

_MODULES = {name: module for module, names in {
    "config": "Config", "dataset": "open", "describe": "cite columns keys placements recipes",
    "errors": "CheckFailed ConfigError Error InputError Stopped", "model": "Model from_torch", "plots": "figures plot",
    "integrations": "lightning_callback scalars trainer_callback", "recording": "Recorder record",
    "_periscope": "Snapshot", "_run": "Record", "_verdicts": "verdicts", "_nulls": "at_init at_scales",
    "_sweep": "Sweep sweep", "_check": "Finding WeightsError assert_healthy check",
    "verbs": "propagate theory compare ladder gradients_depth gradients_attenuation gradients_identity_path "
             "gradients_score_path gradients_crossover power formats verify certify probe train first_steps reproduce",
}.items() for name in names.split()}  # fmt: skip
__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        globals()[name] = value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
        return value
    if name == "__version__":
        from .describe import description

        return description()["version"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
