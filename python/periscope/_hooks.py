"""Hooks on the modules of a model of transformers, which keep the signals of one micro-batch."""

import inspect
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np

from ._layout import OUT_OF, Layout, Place
from ._patches import functions_mode, leave_rotations, watch_rotations
from .errors import InputError

Kept = dict[tuple[int, str], Any]  # tensors by sublayer and name of the signal
# The signals in the order of the dataflow, and those that are kept whole: of others the largest magnitude of every row.
_FORWARD = ("x_in", "A_out", "q_projected", "k_projected", "q", "k", "v", "scores", "mixed", "gate", "up", "hidden",
            "f_out", "B_out", "sum", "x_out")  # fmt: skip
_WHOLE = {"x_in", "A_out", "f_out", "B_out", "sum", "x_out"}
_BACKWARD = ("x_out", "B_out", "f_out", "q_in", "k_in", "v_in", "A_out", "x_in")


class _Hook:
    """A hook that a copy or a pickle of the model replaces by one that does nothing."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes any arguments, also where Periscope is not installed


class Watched:
    """The hooks of one step, for its first micro-batch."""

    def __init__(self, model: Any, layout: Layout, gradients: bool) -> None:
        self._model, self._layout, self._gradients = model, layout, gradients
        self._rules: list[dict[str, bool]] = layout.facts["rules"]  # by sublayer
        self._parameters = dict(model.named_parameters())
        self._signals: Kept = {}
        self._signal_gradients: Kept = {}
        self._sums: dict[tuple[int, str], float] = {}  # of the squares of gradients, by layer and matrix
        self._backward_pass: int | None = None  # the first one that reached what was recorded
        self._ids: Any = None
        self._labels: Any = None
        self._logits: Any = None
        self._logits_version: Any = None
        self.is_complete = False
        self._is_twice = False
        self._thread: int | None = None  # of the pass that is recorded; None between passes
        self._attention = -1  # sublayer of the running attention module
        self._latest: tuple[Any, Any, Any] | None = None  # signal, its version and copy
        self._branch: tuple[int, Any] | None = None  # the latest output of a module or its norm B, by sublayer
        self._of_the_step = ExitStack()
        self._of_the_pass = ExitStack()
        self._attach()

    def _attach(self) -> None:
        """Registers hooks on the model and its parameters; its modules have hooks during the recorded pass only."""
        keep = self._of_the_step.callback
        before = _Hook(_never_compiled(self._before))
        keep(self._model.register_forward_pre_hook(before, with_kwargs=True).remove)
        keep(self._model.register_forward_hook(_Hook(self._after), with_kwargs=True, always_call=True).remove)
        for part in self._layout.matrices() if self._gradients else ():
            parameter = self._parameters[part["tensor"]]
            if parameter.requires_grad:
                keep(parameter.register_hook(_Hook(lambda gradient, p=part: self._add_sum(gradient, p))).remove)

    def close(self) -> None:
        """Removes the hooks; the recorded signals stay."""
        self._of_the_step.close()
        self._leave()

    # -- the forward pass
    def _before(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        import torch

        if self._is_recording():  # a pass within the recorded one, or after an interrupted one, replaces it
            self._leave()
        if self._gradients and not torch.is_grad_enabled():  # a validation in between is not part of the step
            return
        if self.is_complete or self._thread is not None:  # a further micro-batch, or a second pass before any gradients
            self._is_twice = self._is_twice or (self._gradients and self._backward_pass is None)
            return
        named = _by_name(module, arguments, named)
        ids = named.get("input_ids", arguments[0] if arguments else None)
        if ids is None or ids.dim() != 2:
            raise InputError("record: found no input_ids of two dimensions; expected a batch of token ids")
        if _is_compiled_call():
            raise InputError("record: found a call of the compiled model (torch.compile), whose signals no hook sees; "
                             "expected one of the plain module, which has the same weights")  # fmt: skip
        mask = named.get("attention_mask")
        if mask is not None and mask.dim() == 2 and not bool((mask != 0).all()):
            raise InputError("record: found padding in attention_mask; expected sequences of one length")
        self._signals, self._signal_gradients = {}, {}
        self._ids, self._labels = ids.detach().cpu(), named.get("labels")
        self._enter()

    def _enter(self) -> None:
        """Registers hooks on the modules, and patches functions for signals that are not a module's input or output:
        rotated queries and keys, scores, and branches after dropout."""
        modules = dict(self._model.named_modules())
        gone = next((name for name, _ in self._layout.places if name not in modules), None)
        if gone is not None:
            raise InputError(f"record: module {gone} is gone; expected the modules of the model to stay")
        self._thread = threading.get_ident()
        keep = self._of_the_pass.callback
        for (name, is_input), places in self._layout.places.items():
            if is_input:
                hook = _Hook(lambda _, arguments, named, p=places: self._keep_all(
                    p, arguments[0] if arguments else named.get("hidden_states")))  # fmt: skip
                keep(modules[name].register_forward_pre_hook(hook, with_kwargs=True).remove)
            else:
                hook = _Hook(lambda _, __, output, p=places: self._keep_all(
                    p, output[0] if isinstance(output, tuple) else output))  # fmt: skip
                keep(modules[name].register_forward_hook(hook).remove)
        keep(leave_rotations, self)
        for name, sublayer in self._layout.attention.items():
            enter, leave = (_Hook(lambda *_, s=s: self._enter_attention(s)) for s in (sublayer, -1))
            keep(modules[name].register_forward_pre_hook(enter).remove)
            keep(modules[name].register_forward_hook(leave, always_call=True).remove)
            watch_rotations(sys.modules[type(modules[name]).__module__], self)
        mode = functions_mode(self)
        mode.__enter__()
        # A pass that was interrupted in another thread: its mode ended with that thread.
        keep(lambda: self._is_recording() and mode.__exit__(None, None, None))

    def _leave(self) -> None:
        self._of_the_pass.close()
        self._thread, self._branch, self._attention = None, None, -1
        self._latest = None  # it and the hooks of its graph, which refer to this object, would keep each other alive

    def _after(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        if not self._is_recording():
            return
        self._leave()
        if output is None:  # the pass has failed
            return
        parts = output if isinstance(output, tuple) else (getattr(output, "logits", None),)  # with return_dict=False
        logits = next((x for x in parts if getattr(x, "shape", ())[:2] == self._ids.shape and x.dim() == 3), None)
        if logits is not None:
            self._logits = logits.detach()
            self._logits_version = _version(self._logits)
        self.is_complete = True

    def _is_recording(self) -> bool:
        """Returns whether this thread runs the recorded pass; another thread may call the same model meanwhile."""
        return self._thread is not None and self._thread == threading.get_ident()

    def _enter_attention(self, sublayer: int) -> None:
        if self._is_recording():
            self._attention = sublayer

    def keep_rotated(self, q: Any, k: Any) -> None:
        """Keeps queries and keys after RoPE. The function that makes them is shared by all models of a family."""
        if self._attention < 0 or not self._is_recording():
            return
        for signal, heads in (("q", q), ("k", k)):  # [sequences, heads, tokens, e]
            self._keep(Place(self._attention, signal), heads.detach(), heads.transpose(1, 2).flatten(2))

    def keep_dropped(self, before: Any, after: Any) -> None:
        """Keeps a branch after its dropout, as it is added to the stream."""
        if self._branch is not None and self._branch[1] is before:
            self._keep(Place(self._branch[0], "B_out"), after, after)

    def keep_scores(self, scores: Any) -> None:
        """Of every token and head the largest magnitude of what enters the softmax, masked places left out."""
        import torch

        if not self._is_recording() or scores.dim() != 4 or self._attention < 0:
            return
        size = scores.detach().abs()
        size = size.masked_fill(scores < torch.finfo(scores.dtype).min / 2, 0.0)
        self._signals.setdefault((self._attention, "scores"), size.amax(-1).transpose(1, 2).flatten(0, 1))

    def _keep_all(self, places: list[Place], x: Any) -> None:
        for place in places:
            self._keep(place, x, x if place.columns is None else x[..., place.columns])
            if place.signal in ("f_out", "B_out") and self._is_recording():
                self._branch = (place.sublayer, x)

    def _keep(self, place: Place, x: Any, seen: Any) -> None:
        """Keeps a signal, and its gradient once it comes; ``seen`` is x as [sequences, tokens, columns]."""
        key = (place.sublayer, place.signal)
        if not self._is_recording() or key in self._signals:
            return
        rows = seen.detach().flatten(0, -2)
        if place.signal not in _WHOLE:
            self._signals[key] = rows.abs().amax(-1, keepdim=True)
        else:  # a copy, as modules may change it in place; one copy for a tensor that is two signals
            if self._latest is None or self._latest[0] is not x or self._latest[1] != _version(x):
                self._latest = (x, _version(x), rows.clone())
            self._signals[key] = self._latest[2]
        is_followed = place.signal in _WHOLE or place.through is not None
        if not (self._gradients and x.requires_grad and is_followed):
            return
        gradients = self._signal_gradients  # of this pass, even if another replaces it

        def on_gradient(gradient: Any) -> None:
            if self._backward_pass is None:
                self._backward_pass = _current_backward_pass()
            if self._backward_pass != _current_backward_pass():
                return
            gradient = (gradient if place.columns is None else gradient[..., place.columns]).detach().flatten(0, -2)
            if place.through is None:
                gradients.setdefault(key, gradient)
                return
            part = self._layout.parts[(place.sublayer, place.through)]  # read now, as the optimizer changes the matrix
            w = _rows_of(part, self._parameters[part["tensor"]].detach())
            w = (w.T if part["transposed"] else w).to(gradient.dtype)
            gradients.setdefault((place.sublayer, f"{place.through}_in"), gradient @ w)

        x.register_hook(on_gradient)

    # -- the backward pass
    def _add_sum(self, gradient: Any, part: dict[str, Any]) -> None:
        """Of the recorded backward pass alone, whatever has been accumulated before."""
        import torch

        key = (part["sublayer"] // 2, part["weight"])
        if self._backward_pass == _current_backward_pass() and key not in self._sums:
            self._sums[key] = float(_rows_of(part, gradient.detach()).to(torch.float64).square().sum())

    # -- what was seen
    def outcome(self) -> dict[str, Any]:
        """Returns the pass as arguments of ``replay`` of the compiled module, signals in the order of the dataflow.
        Raises InputError if the loop has changed recorded tensors or mixed two passes, or if the pass left out a
        layer."""
        import torch

        if self._is_twice:
            raise InputError("record: found two passes before one backward pass, whose gradients are of both; expected "
                             "one, or gradients=False")  # fmt: skip
        if self._logits is not None and _version(self._logits) != self._logits_version:
            raise InputError("record: found logits that were changed in place; expected them to stay for the step")
        single = any(x.dtype.itemsize <= 4 for x in self._signals.values())
        stream = {x.dtype for (_, signal), x in self._signals.items() if signal in ("x_in", "sum", "x_out")}
        return {
            "sequences": int(self._ids.shape[0]),
            "ids": self._ids.flatten().tolist(),
            "labels": self._labels_of(),
            "signals": [*self._forward(), *self._backward()],
            "gradients": [(layer, weight, value) for (layer, weight), value in sorted(self._sums.items())],
            "logits": None if self._logits is None else _numbers(self._logits.flatten(0, -2)),
            "dtype": "f32" if single else "f64",
            "unit_roundoff": max(float(torch.finfo(dtype).eps) for dtype in stream) / 2,
        }

    def _labels_of(self) -> list[int]:
        """The next token, or what the batch's labels say; −1 where there is none."""
        import torch

        causal = self._layout.facts["causal"]
        if self._logits is None or (self._labels is None and not causal):
            return [-1] * self._ids.numel()
        labels = self._ids if self._labels is None else self._labels.detach().cpu()
        if causal:
            labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -1)], dim=1)
        return list(labels.clip(min=-1).flatten().tolist())

    def _streams(self, kept: Kept) -> Kept:
        """Returns the tensors with the names that are other signals where a norm is absent."""
        found = dict(kept)
        for s, rule in enumerate(self._rules):
            if not rule["norm_b"] and (s, "f_out") in found:
                found.setdefault((s, "B_out"), found[(s, "f_out")])
            if (s + 1, "x_in") in found:
                found.setdefault((s, "x_out"), found[(s + 1, "x_in")])
        if (0, "x_in") in found:
            found[(-1, "x_out")] = found[(0, "x_in")]
        return found

    def _forward(self) -> list[tuple[int, str, bool, np.ndarray]]:
        found = self._streams(self._signals)
        last = len(self._rules) - 1
        has_rope = self._layout.facts["rope"]
        needed = [(s, signal) for s in range(last + 1) for signal in ("x_in", "f_out")] + [(last, "x_out")]
        if not has_rope:
            needed += [(s, signal) for s in range(0, last, 2) for signal in ("q_projected", "k_projected")]
        left_out = next((s // 2 for s, signal in needed if (s, signal) not in found), None)
        if left_out is not None:
            raise InputError(f"record: layer {left_out} was left out of the pass, or code took the place of its "
                             "modules; expected all layers (layerdrop = 0), without fused code")  # fmt: skip
        for s, rule in enumerate(self._rules):
            if not rule["norm_a"]:
                found.setdefault((s, "A_out"), found[(s, "x_in")])
            if not rule["norm_c"]:
                found.setdefault((s, "sum"), found[(s, "x_out")])
            if s % 2 == 0 and not has_rope:
                for signal in ("q", "k"):
                    found.setdefault((s, signal), found[(s, f"{signal}_projected")])
        return _arrays(found, _FORWARD, range(-1, last + 1), False)

    def _backward(self) -> list[tuple[int, str, bool, np.ndarray]]:
        if not self._signal_gradients:
            return []
        found = self._streams(self._signal_gradients)
        for s, rule in enumerate(self._rules):
            reads = [found[(s, f"{weight}_in")] for weight in OUT_OF if (s, f"{weight}_in") in found]
            if not rule["norm_a"] and reads:
                found[(s, "A_out")] = sum(reads)
        return _arrays(found, _BACKWARD, range(len(self._rules) - 1, -2, -1), True)


def _arrays(
    found: Kept, order: tuple[str, ...], sublayers: range, is_gradient: bool
) -> list[tuple[int, str, bool, np.ndarray]]:
    """One array for every tensor: two signals without a norm between them are one, and are measured once."""
    known: dict[int, np.ndarray] = {}
    arrays = []
    for s in sublayers:
        for signal in order:
            x = found.get((s, signal))
            if x is not None:
                if id(x) not in known:
                    known[id(x)] = _numbers(x)
                arrays.append((s, signal, is_gradient, known[id(x)]))
    return arrays


def _rows_of(part: dict[str, Any], tensor: Any) -> Any:
    """Returns the rows of a tensor that hold a matrix."""
    rows = slice(part["first"], part["first"] + part["rows"])
    return tensor[:, rows] if part["transposed"] else tensor[rows]


def _by_name(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Returns all arguments of a call of a module by name, or the named ones for a call that does not fit."""
    try:
        return {**inspect.signature(module.forward).bind_partial(*arguments, **named).arguments, **named}
    except (TypeError, ValueError):
        return named


def _current_backward_pass() -> int:
    """Returns the number of the running backward pass; 0 if this version of torch has none."""
    import torch

    return int(getattr(torch._C, "_current_graph_task_id", int)())


def _version(x: Any) -> Any:
    """How often a tensor was changed in place; None for one that keeps no count (of inference_mode)."""
    try:
        return x._version
    except RuntimeError:
        return None


def _numbers(x: Any) -> np.ndarray:
    import torch

    return np.ascontiguousarray(x.detach().to(device="cpu", dtype=torch.float64).numpy())


def _never_compiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that torch.compile calls without tracing it."""
    import torch

    try:
        return torch.compiler.disable(call, reason="periscope.record: call the plain module in recorded steps")
    except TypeError:  # before torch 2.7
        return torch.compiler.disable(call)


def _is_compiled_call() -> bool:
    """Returns whether compiled code calls the function that ``_never_compiled`` returned."""
    frame: Any = sys._getframe(1)
    contexts = []
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch._dynamo.eval_frame":
            contexts.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return len(contexts) > 1 and contexts[1].startswith("_TorchDynamoContext")  # the first belongs to _never_compiled
