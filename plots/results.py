"""Result files of Periscope as arrays."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
MLPS = {"swiglu": "SwiGLU", "geglu": "GeGLU", "relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}
SCHEMES = {"lecun": "LeCun", "he": "He", "xavier": "Xavier"}


class ResultError(Exception):
    """A file that is not a result of Periscope. The message names it."""


@dataclass(frozen=True)
class Result:
    """One result file: its variables by name, and what its attributes say about the run."""

    path: Path
    variables: dict[str, np.ndarray]
    attributes: dict[str, Any]
    config: dict[str, Any]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.variables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    @property
    def measured(self) -> bool:
        return any(name.endswith("_measured") for name in self.variables)

    @property
    def seeds(self) -> int:
        return self.config["converge" if "bias" in self else "run"]["seeds"]

    def setting(self) -> str:
        """The sentences of a caption that say what was run, and with which Periscope."""
        stack = self.config["stacks"][0]
        model, init = stack["model"], stack["init"]
        scheme = SCHEMES.get(init["scheme"], init["scheme"])
        parts = [
            *([f"{model['layers']} layer{'s' * (model['layers'] > 1)}, each attention and MLP"]
              if "layers" not in self else []),
            *([f"width {model['width']}"] if "width" not in self and "ladder_width" not in self else []),
            f"{stack['input']['tokens']} tokens",
            MLPS.get(model["mlp"], model["mlp"]),
            NORMS.get(model["norm"], model["norm"]),
            f"{scheme} init" + (f" (std {init['std']:g})" if scheme == "normal" else ""),
            *([self.config["run"]["dtype"]] if self.measured or "bias" in self or "fit" in self else []),
        ]
        words = ", ".join(parts)
        version, commit = self.attributes["version"], self.attributes["commit"]
        return f"{words[0].upper()}{words[1:]}. {self._misled()}Periscope {version}, commit {commit}."

    def _misled(self) -> str:
        """What theory was told instead of the truth, or which mistake was planted in it."""
        if "theory_told" not in self.attributes:
            return ""
        told = json.loads(self.attributes["theory_told"])
        planted = [] if told["fault"] == "none" else [f"planted fault {told['fault']}"]
        return f"Theory is wrong on purpose: {', '.join(told['set'] + planted)}. "


def _plain(values: Any) -> np.ndarray:
    return np.asarray(np.ma.filled(values, np.nan) if np.ma.isMaskedArray(values) else values)


def read(path: Path) -> Result:
    """Reads a file whole."""
    try:
        with netCDF4.Dataset(path) as data:
            attributes = {name: data.getncattr(name) for name in data.ncattrs()}
            if attributes.get("program") != "periscope":
                raise ResultError(f"{path}: not a result of Periscope: its attribute 'program' is not 'periscope'")
            variables = {name: _plain(variable[...]) for name, variable in data.variables.items()}
        return Result(path, variables, attributes, json.loads(attributes["config"]))
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ResultError(f"{path}: expected a NetCDF-4 file of Periscope: {error}") from error
