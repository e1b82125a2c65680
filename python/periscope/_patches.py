"""Patches of functions during a recorded pass, for signals that are not a module's input or output."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._hooks import Watched


class _Rotations:
    """A patch of apply_rotary_pos_emb in one module of transformers that passes the results to all watchers."""

    def __init__(self, rotate: Callable[..., Any]) -> None:
        self.rotate = rotate
        self.watchers: list["Watched"] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        q, k = self.rotate(*arguments, **named)
        for watched in tuple(self.watchers):
            watched.keep_rotated(q, k)
        return q, k


_LOCK = threading.Lock()
_ROTATIONS: dict[Any, _Rotations] = {}  # by module


def watch_rotations(home: Any, watched: "Watched") -> None:
    with _LOCK:
        if home not in _ROTATIONS and hasattr(home, "apply_rotary_pos_emb"):
            _ROTATIONS[home] = home.apply_rotary_pos_emb = _Rotations(home.apply_rotary_pos_emb)
        if home in _ROTATIONS and watched not in _ROTATIONS[home].watchers:
            _ROTATIONS[home].watchers.append(watched)


def leave_rotations(watched: "Watched") -> None:
    with _LOCK:
        for home, patch in list(_ROTATIONS.items()):
            if watched in patch.watchers:
                patch.watchers.remove(watched)
            if not patch.watchers:
                del _ROTATIONS[home]
                if home.apply_rotary_pos_emb is patch:  # else other code has patched it since
                    home.apply_rotary_pos_emb = patch.rotate


def _dropped(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Returns the input of a call of torch.nn.functional.dropout if it drops anything, else None."""
    return input if training and p > 0 else None


def functions_mode(watched: "Watched") -> Any:
    """Returns a mode that passes softmaxes of attention and dropouts to ``watched``."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (torch.nn.functional.softmax, torch.softmax) and args:
                watched.keep_scores(args[0])
            result = func(*args, **(kwargs or {}))
            if func is torch.nn.functional.dropout:
                watched.keep_dropped(_dropped(*args, **(kwargs or {})), result)
            return result

    return Functions()
