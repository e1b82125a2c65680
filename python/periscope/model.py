"""Models in memory: arrays of numpy, torch or DLPack, and Hugging Face models."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _wrappers
from .config import Config, ConfigLike
from .errors import ConfigError, InputError, utf8

if TYPE_CHECKING:
    from . import _periscope

# Safetensors dtype names, keyed by the names that numpy, torch and ml_dtypes use.
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
}  # fmt: skip


class Model:
    """Weights in memory, accepted by ``probe`` and ``certify`` in place of a checkpoint's folder.

    ``Model(config, weights={…})`` is a stack of Periscope: ``config`` describes one stack, ``weights`` maps names to
    parameters. ``Config.parameters()`` lists names and shapes; a matrix is [out, in]. Arrays may be of numpy, torch or
    any library with DLPack, on the CPU, and of any floating-point type including bfloat16.

    Arrays are copied by default. ``copy=False`` refers to the caller's memory, which saves gigabytes; the arrays must
    then not change while a run reads them.

    Raises ConfigError for a configuration of several stacks, and InputError for an unsupported array. ``probe`` and
    ``certify`` raise InputError for a missing or unknown parameter and for a wrong shape.
    """

    def __init__(
        self, config: ConfigLike, weights: Mapping[str, Any], *, copy: bool = True, name: str = "model"
    ) -> None:
        stacks = Config.of(config).resolved()["stacks"]
        if len(stacks) != 1:
            raise ConfigError(f"config: found {len(stacks)} stacks; expected one, so set every key to one value")
        described = {"model_type": "periscope", **stacks[0]}
        self._compiled = compiled(name, json.dumps(described), weights, copy)

    @property
    def name(self) -> str:
        """Name of the model in results."""
        return self._compiled.name

    def __repr__(self) -> str:
        return f"Model({self.name!r})"


def compiled(
    name: str, config: str, weights: Mapping[str, Any], copy: bool, ignore_keys: Sequence[str] = ()
) -> "_periscope.Model":
    """Returns a model of the compiled module from the text of config.json and weights; ignores ``ignore_keys``."""
    from . import _periscope

    if isinstance(ignore_keys, str):
        ignore_keys = [ignore_keys]
    if not isinstance(ignore_keys, Iterable):
        raise ConfigError(f"ignore_keys = {ignore_keys!r}: expected a list of keys")
    if not isinstance(weights, Mapping):
        raise ConfigError(f"weights: found {type(weights).__name__}; expected arrays by name")
    tensors = {key: _tensor(key, value) for key, value in weights.items()}
    name, keys = utf8("name", name), [utf8("ignore_keys", key) for key in ignore_keys]
    return _periscope.Model(name, config, tensors, copy=copy, ignore_keys=keys)


def _tensor(name: str, value: Any) -> tuple[str, list[int], np.ndarray]:
    """Returns the type, shape and bytes of an array."""
    if not isinstance(name, str):
        raise ConfigError(f"weights: found the name {name!r}; expected text")
    utf8("weights", name)
    if hasattr(value, "detach") and hasattr(value, "data_ptr"):  # a torch tensor
        return _of_torch(name, value)
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
    array = np.asarray(value)
    kind = TYPES.get(array.dtype.name)
    if np.ma.is_masked(value):
        raise InputError(f"weights: {name} has masked entries; expected numbers only")
    if kind is None or array.dtype.byteorder == ">":
        raise InputError(f"weights: {name} has type {array.dtype}; expected numbers in native byte order")
    flat = np.ascontiguousarray(array).reshape(-1)
    return kind, list(array.shape), flat.view(np.uint8)


def _of_torch(name: str, value: Any) -> tuple[str, list[int], np.ndarray]:
    import torch

    kind = TYPES.get(str(value.dtype).removeprefix("torch."))
    if kind is None:
        raise InputError(f"weights: {name} has type {value.dtype}; expected numbers")
    if value.layout != torch.strided or value.is_nested or value.device.type == "meta":
        raise InputError(f"weights: {name} is sparse, nested or without values; expected a dense tensor in memory")
    if value.device.type != "cpu":
        value = value.cpu()
    flat = value.detach().resolve_neg().contiguous().reshape(-1)
    return kind, list(value.shape), flat.view(torch.uint8).numpy()


def from_torch(model: Any, *, copy: bool = True, name: str | None = None, ignore_keys: Sequence[str] = ()) -> Model:
    """Converts a Hugging Face transformers model of a supported family to a ``Model`` without writing files.

    ``ignore_keys`` are unknown keys of the model's configuration that do not change its function; results list them in
    ``attrs["ignored_keys"]``.

    ``copy=False`` refers to the model's memory, which must not change while a run reads it. The model of a PeftModel
    has its LoRA adapter merged. Raises InputError for a model that is sharded over processes or devices or quantized,
    for other adapters, and for a model without a configuration.
    """
    model = plain_of(model)
    made = Model.__new__(Model)
    made._compiled = compiled_from_torch(model, copy=copy, name=name, ignore_keys=ignore_keys)
    return made


def compiled_from_torch(
    model: Any,
    *,
    copy: bool,
    name: str | None = None,
    only_vectors: bool = False,
    ignore_keys: Sequence[str] = (),
) -> "_periscope.Model":
    """Returns a model of the compiled module for a model that ``plain_of`` returned. ``only_vectors``: only its vectors
    will be read; copies them even without ``copy``, and merges no adapters."""
    config = json.loads(model.config.to_json_string(use_diff=False))
    if not config.get("architectures"):
        config["architectures"] = [type(model).__name__]
    tensors = _wrappers.tensors_of(model, merge=not only_vectors)
    if only_vectors:
        tensors = {key: value.clone() if value.dim() < 2 else value for key, value in tensors.items()}
    return compiled(name or type(model).__name__, json.dumps(config), tensors, copy, ignore_keys)


def plain_of(model: Any) -> Any:
    """Returns the transformers model in a compiled, distributed or adapted one. Raises InputError, with the reason, for
    a model that is not plain or not in this process."""
    model = _wrappers.base_of(model)
    kind = type(model).__name__
    if kind in ("FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine", "DataParallel"):
        raise InputError(f"model: found {kind}, which distributes weights or inputs; expected the plain module in it")
    if len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1:
        raise InputError("model: found weights on several devices (hf_device_map); expected a model on one device")
    if getattr(getattr(model, "config", None), "quantization_config", None) is not None:
        raise InputError("model: found a quantized model (quantization_config); expected floating-point weights")
    if not hasattr(model, "state_dict") or not hasattr(getattr(model, "config", None), "to_json_string"):
        raise InputError(f"model: found {kind}; expected a transformers model with a configuration")
    for key, value in model.state_dict().items():
        if (tensor := type(value).__name__) in ("DTensor", "ShardedTensor"):
            raise InputError(f"model: {key} is a {tensor}, sharded over processes; expected whole tensors")
        if getattr(getattr(value, "device", None), "type", "") == "meta":
            raise InputError(f"model: {key} has no values (device meta); expected weights in memory")
    return model


def model_name(checkpoint: Any) -> tuple["_periscope.Model | None", Any]:
    """Resolves a study's ``checkpoint`` argument to a model in memory, or None, and a name or folder."""
    if isinstance(checkpoint, Model):
        return checkpoint._compiled, checkpoint.name
    if hasattr(checkpoint, "state_dict"):  # a torch module
        return model_name(from_torch(checkpoint))
    if checkpoint is None or isinstance(checkpoint, (str, os.PathLike)):
        return None, checkpoint
    raise ConfigError(f"checkpoint: found {type(checkpoint).__name__}; expected a folder or a periscope.Model")
