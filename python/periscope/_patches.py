"""Patches of functions during a recorded pass, for signals that are not inputs or outputs of modules, and of torch
during a recorded step."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._hooks import StepHooks


class _Rotations:
    """Replacement of apply_rotary_pos_emb in one module of transformers; passes its results to all recorders."""

    def __init__(self, rotate: Callable[..., Any]) -> None:
        self.rotate = rotate
        self.hooks: list["StepHooks"] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        rotated = self.rotate(*arguments, **named)
        for hooks in tuple(self.hooks):
            if isinstance(rotated, tuple):
                hooks.record_rotated(*rotated)
            else:  # one call for queries, then one for keys, [sequences, tokens, heads, e] (Gemma 4)
                hooks.record_one_rotated(rotated.transpose(1, 2))
        return rotated


_LOCK = threading.Lock()
_ROTATIONS: dict[Any, _Rotations] = {}  # replaced functions by module


def watch_rotations(module: Any, hooks: "StepHooks") -> None:
    with _LOCK:
        if module not in _ROTATIONS and hasattr(module, "apply_rotary_pos_emb"):
            _ROTATIONS[module] = module.apply_rotary_pos_emb = _Rotations(module.apply_rotary_pos_emb)
        if module in _ROTATIONS and hooks not in _ROTATIONS[module].hooks:
            _ROTATIONS[module].hooks.append(hooks)


def unwatch_rotations(hooks: "StepHooks") -> None:
    with _LOCK:
        for module, patch in list(_ROTATIONS.items()):
            if hooks in patch.hooks:
                patch.hooks.remove(hooks)
            if not patch.hooks:
                del _ROTATIONS[module]
                if module.apply_rotary_pos_emb is patch:  # unless other code has patched it since
                    module.apply_rotary_pos_emb = patch.rotate


_STANCES: list[Any] = []  # one entry per recorded step; the first one restores the earlier behaviour of torch


def run_eagerly() -> Callable[[], None]:
    """Makes compiled modules run without compilation, because hooks are not part of compiled code. Returns a function
    that ends this, unless other steps are being recorded."""
    import torch

    if not hasattr(torch.compiler, "set_stance"):  # torch before 2.6
        return lambda: None

    def end() -> None:
        with _LOCK:
            if len(_STANCES) == 1:
                _STANCES[0].__exit__(None, None, None)
            _STANCES.pop()

    with _LOCK:
        _STANCES.append(_STANCES[0] if _STANCES else torch.compiler.set_stance("force_eager"))
    return end


def _dropout_input(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Returns the input of a call of torch.nn.functional.dropout, or None if dropout is inactive."""
    return input if training and p > 0 else None


def function_recorder(hooks: "StepHooks") -> Any:
    """Returns a TorchFunctionMode that passes the results of dropout to ``hooks``."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Functions(TorchFunctionMode):
        def __init__(self, hooks: "StepHooks") -> None:
            super().__init__()
            # Not captured by the methods: a class is always part of a reference cycle, which would keep the signals.
            self._hooks = hooks

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func is torch.nn.functional.dropout:
                self._hooks.record_after_dropout(_dropout_input(*args, **(kwargs or {})), result)
            return result

    return Functions(hooks)
