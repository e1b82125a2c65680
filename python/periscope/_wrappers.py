"""Finds the transformers model inside wrappers of torch and PEFT, and the weights that LoRA adapters change."""

from typing import Any

from .errors import InputError

_INNER = {"DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}


def called_module(model: Any) -> Any:
    """Returns the module inside DistributedDataParallel and torch.compile, which every call of the wrapper calls."""
    while inner := _INNER.get(type(model).__name__):
        model = getattr(model, inner)
    return model


def rank() -> int:
    """Returns the rank of this process in distributed training; 0 without it."""
    import torch.distributed as distributed

    return int(distributed.get_rank()) if distributed.is_available() and distributed.is_initialized() else 0


def base_of(model: Any) -> Any:
    """Returns the transformers model inside a PeftModel, and other models unchanged. Raises InputError, with the
    reason, for adapters other than plain LoRA of linear layers."""
    model = called_module(model)
    is_peft = type(model).__module__.startswith("peft.")
    base = model.get_base_model() if is_peft and hasattr(model, "get_base_model") else model
    embedding = getattr(getattr(base, "get_input_embeddings", lambda: None)(), "weight", None)
    for part in getattr(base, "modules", list)():
        kind = type(part)
        if kind.__module__ == "peft.tuners.lora.layer" and kind.__name__ == "Linear":
            reason = _why_unsupported(part, embedding)
        else:
            reason = f"{kind.__module__}.{kind.__name__}" if kind.__module__.startswith("peft.") else ""
        if reason:
            raise InputError(f"model: found {reason}; expected LoRA of linear layers with one adapter, or the plain "
                             "model returned by merge_and_unload() of the PeftModel")  # fmt: skip
    if is_peft and getattr(model.active_peft_config, "is_prompt_learning", False):
        raise InputError("model: found a prompt of PEFT, which adds tokens; expected a plain model or LoRA")
    return base


def _why_unsupported(layer: Any, embedding: Any) -> str:
    """Returns which property of a LoRA layer is unsupported, or ""."""
    adapters = _adapters(layer)
    if len(adapters) > 1:
        return "several active adapters at once"
    properties = [getattr(layer, key, {}) for key in ("lora_variant", "use_dora", "lora_bias")]  # by version of PEFT
    if any(one[name] for name in adapters for one in properties if name in one):
        return "a variant of LoRA, such as DoRA or a bias"
    return "LoRA of a matrix that is tied to the embedding" if layer.get_base_layer().weight is embedding else ""


def _adapters(layer: Any) -> list[str]:
    """Returns the names of a layer's active adapters that are not merged into its weight."""
    if layer.disable_adapters:
        return []
    return [name for name in layer.active_adapters if name in layer.scaling and name not in layer.merged_adapters]


def is_adapted(module: Any) -> bool:
    """Returns whether a module is a LoRA layer; ``base_of`` has rejected other adapters."""
    return hasattr(module, "base_layer")


def weight_of(module: Any) -> Any:
    """Returns the matrix of a linear module in its stored shape: W, or W + scaling·B A with a LoRA adapter."""
    if not is_adapted(module):
        return module.weight.detach()
    weight = module.get_base_layer().weight.detach()
    for name in _adapters(module):
        weight = weight + module.get_delta_weight(name).detach().to(weight.dtype)
    return weight


def trained_of(module: Any, rows: int) -> list[Any]:
    """Returns the trained parameters of a matrix in a linear module: the module's matrix, or A and B of its LoRA
    adapter; nothing if the adapter's output does not have ``rows`` entries and thus belongs to several matrices."""
    parameters = [module.weight]
    if is_adapted(module):
        parameters = [part[name].weight for name in _adapters(module) for part in (module.lora_A, module.lora_B)
                      if module.lora_B[name].out_features == rows]  # fmt: skip
    return [parameter for parameter in parameters if parameter.requires_grad]


def has_lora_dropout(module: Any) -> bool:
    """Returns whether a LoRA layer drops entries of its adapter's input now."""
    return is_adapted(module) and any(
        module.training and getattr(module.lora_dropout[name], "p", 0) > 0 for name in _adapters(module))  # fmt: skip


def tensors_of(model: Any, merge: bool = True) -> dict[str, Any]:
    """Returns a model's tensors by their names without adapters. ``merge`` adds the adapters to their matrices."""
    tensors = {key.replace(".base_layer.", "."): value for key, value in model.state_dict().items()
               if hasattr(value, "data_ptr") and ".lora_" not in key}  # fmt: skip
    for name, part in model.named_modules():
        if merge and is_adapted(part):
            tensors[f"{name}.weight"] = weight_of(part)
    return tensors
