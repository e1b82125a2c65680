"""Hooks on the modules of a transformers model that record the signals of one micro-batch."""

import inspect
import math
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np

from ._layout import OUTPUT_OF, Layout, Place, features_of, module_name
from ._patches import function_recorder, run_eagerly, unwatch_rotations, watch_rotations
from ._wrappers import is_adapted, trained_of, weight_of
from .errors import InputError

Signals = dict[tuple[int, str], Any]  # tensors by sublayer and name of the signal
# Signals in dataflow order. Those in _WHOLE are stored completely; others only as the largest magnitude per row, and
# scores as the largest magnitude per row and head.
_FORWARD = ("x_in", "A_out", "q_projected", "k_projected", "v_projected", "q", "k", "v", "scores", "mixed", "gate",
            "up", "hidden", "f_out", "B_out", "sum", "x_out")  # fmt: skip
_WHOLE = {"x_in", "A_out", "f_out", "B_out", "sum", "x_out"}
_BACKWARD = ("x_out", "B_out", "f_out", "q_in", "k_in", "v_in", "A_out", "x_in")


class _Hook:
    """A hook that becomes a no-op when the model is copied or pickled."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # accepts any arguments and does not need Periscope to unpickle


class StepHooks:
    """The hooks of one training step, which record its first micro-batch."""

    def __init__(self, model: Any, base: Any, layout: Layout, gradients: bool) -> None:
        self._model, self._layout, self._gradients = model, layout, gradients  # the model that the caller calls
        self._base, self._modules = base, dict(base.named_modules())
        self._rules: list[dict[str, bool]] = layout.info["rules"]  # existing norms, by sublayer
        self._signals: Signals = {}
        self._signal_gradients: Signals = {}
        self._sums: dict[tuple[int, str], list[float]] = {}  # squared norms of gradients by layer and matrix
        self._backward_pass: int | None = None  # id of the first backward pass that reached a recorded signal
        self._ids: Any = None  # [sequences, tokens]
        self._real: Any = None  # mask of the tokens that are not padding, like _ids; None: all
        self._has_scores = True  # whether every real token attends to all earlier ones of its row
        self._queries: Any = None  # latest queries without RoPE
        self._labels: Any = None
        self._logits: Any = None
        self._logits_version: Any = None
        self.is_complete = False
        self._has_mixed_passes = False
        self._thread: int | None = None  # thread of the recorded pass; None between passes
        self._attention = -1  # sublayer of the running attention module; -1 outside attention
        self._latest: tuple[Any, Any, Any] | None = None  # last recorded signal, its version and copy
        self._branch: tuple[int, Any] | None = None  # sublayer and output of the latest module or norm B
        self._step_hooks = ExitStack()
        self._pass_hooks = ExitStack()
        self._attach()

    def _attach(self) -> None:
        """Registers hooks on the model and its parameters. Modules have hooks only during the recorded pass."""
        on_close = self._step_hooks.callback
        on_close(run_eagerly())
        on_close(self._model.register_forward_pre_hook(_Hook(self._before), with_kwargs=True).remove)
        on_close(self._model.register_forward_hook(_Hook(self._after), with_kwargs=True, always_call=True).remove)
        for part in self._layout.matrices() if self._gradients else ():
            sums = self._sums.setdefault((part["sublayer"] // 2, part["weight"]), [])
            if part["weight"] in ("k", "v") and self._layout.are_keys_values(part["sublayer"]):
                continue  # W_k and W_v share a parameter; _record computes their separate gradients
            for i, parameter in enumerate(trained_of(self._module_of(part), part["rows"])):
                sums.append(math.nan)
                hook = _Hook(lambda gradient, p=part, s=sums, i=i: self._add_sum(gradient, p, s, i))
                on_close(parameter.register_hook(hook).remove)

    def _module_of(self, part: dict[str, Any]) -> Any:
        return self._modules[module_name(part)]

    def close(self) -> None:
        """Removes the hooks but not the recorded signals."""
        self._step_hooks.close()
        self._stop_pass()

    # Forward pass.
    def _before(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        import torch

        if self._is_recording():  # a nested pass, or one after an interrupted pass, replaces the recorded one
            self._stop_pass()
        if self._gradients and not torch.is_grad_enabled():  # a validation pass is not part of the step
            return
        if self.is_complete or self._thread is not None:  # a later micro-batch, or a pass before backward
            self._has_mixed_passes = self._has_mixed_passes or (self._gradients and self._backward_pass is None)
            return
        named = _by_name(module, arguments, named)
        ids = named.get("input_ids", arguments[0] if arguments else None)
        if ids is None or ids.dim() != 2:
            raise InputError("record: found no two-dimensional input_ids; expected a batch of token ids")
        self._signals, self._signal_gradients = {}, {}
        self._ids, self._labels = ids.detach().cpu(), named.get("labels")
        mask = named.get("attention_mask")
        self._real = _real_tokens(ids, mask)
        self._has_scores = (mask is None or _is_plain(mask)) and not self._is_packed(named.get("position_ids"))
        self._start_pass()

    def _start_pass(self) -> None:
        """Registers hooks on the modules, and patches functions for signals that are not inputs or outputs of modules:
        rotated queries and keys, and branches after dropout."""
        self._modules = modules = dict(self._base.named_modules())
        missing = next((name for name, _ in self._layout.places if name not in modules), None)
        if missing is not None:
            raise InputError(f"record: module {missing} no longer exists; expected the same modules as at the start")
        self._thread = threading.get_ident()
        on_stop = self._pass_hooks.callback
        for (name, is_input), places in self._layout.places.items():
            if is_input:
                hook = _Hook(lambda _, arguments, named, p=places: self._record_input(p, arguments, named))
                on_stop(modules[name].register_forward_pre_hook(hook, with_kwargs=True).remove)
            else:
                hook = _Hook(lambda _, __, output, p=places: self._record_all(
                    p, output[0] if isinstance(output, tuple) else output))  # fmt: skip
                on_stop(modules[name].register_forward_hook(hook).remove)
        on_stop(unwatch_rotations, self)
        for name, sublayer in self._layout.attention.items():
            enter, leave = (_Hook(lambda *_, s=s: self._set_attention(s)) for s in (sublayer, -1))
            on_stop(modules[name].register_forward_pre_hook(enter).remove)
            on_stop(modules[name].register_forward_hook(leave, always_call=True).remove)
            watch_rotations(sys.modules[type(modules[name]).__module__], self)
        mode = function_recorder(self)
        mode.__enter__()
        # If the pass was interrupted in another thread, its TorchFunctionMode ended with that thread.
        on_stop(lambda: self._is_recording() and mode.__exit__(None, None, None))

    def _stop_pass(self) -> None:
        self._pass_hooks.close()
        self._thread, self._branch, self._attention = None, None, -1
        self._latest = self._queries = None  # breaks a reference cycle with the hooks of its autograd graph

    def _after(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        if not self._is_recording():
            return
        self._stop_pass()
        if output is None:  # the pass failed
            return
        parts = output if isinstance(output, tuple) else (getattr(output, "logits", None),)  # with return_dict=False
        logits = next((x for x in parts if getattr(x, "shape", ())[:2] == self._ids.shape and x.dim() == 3), None)
        if logits is not None:
            self._logits = logits.detach()
            self._logits_version = _version(self._logits)
        self.is_complete = True

    def _is_recording(self) -> bool:
        """Returns whether the calling thread runs the recorded pass. Other threads may call the same model."""
        return self._thread is not None and self._thread == threading.get_ident()

    def _set_attention(self, sublayer: int) -> None:
        if self._is_recording():
            self._attention = sublayer

    def record_rotated(self, q: Any, k: Any) -> None:
        """Records queries and keys after RoPE. All models of a family share the patched function."""
        if self._attention < 0 or not self._is_recording():
            return
        for signal, heads in (("q", q), ("k", k)):  # [sequences, heads, tokens, e]
            self._record(Place(self._attention, signal), heads.detach(), heads.transpose(1, 2).flatten(2))
        self._record_scores(self._attention, q.detach(), k.detach())

    def record_one_rotated(self, x: Any) -> None:
        """Like record_rotated, for alternating calls with queries and keys, both [sequences, heads, tokens, e]."""
        if self._attention < 0 or not self._is_recording():
            return
        if self._queries is None:
            self._queries = x
        else:
            self.record_rotated(self._queries, x)
            self._queries = None

    def _is_packed(self, positions: Any) -> bool:
        """Returns whether a row consists of several sequences, which position_ids that are not consecutive show."""
        if positions is None or positions.dim() > 2:
            return positions is not None
        jumps = positions.expand(self._ids.shape).diff(dim=-1) != 1
        return bool((jumps if self._real is None else jumps & self._real[:, 1:] & self._real[:, :-1]).any())

    def _record_scores(self, sublayer: int, q: Any, k: Any) -> None:
        """Records the largest |score| that enters the softmax, by token and query head. q is [sequences, heads, tokens,
        e], k [sequences, kv_heads, tokens, e]."""
        import torch

        if not self._has_scores or (sublayer, "scores") in self._signals:
            return
        rule = self._layout.info["scores"][sublayer // 2]
        dtype = torch.promote_types(q.dtype, torch.float32)
        t = torch.arange(q.shape[2], device=q.device)
        distance = t[:, None] - t  # of a key before a query
        unseen = (distance < 0) if self._layout.info["causal"] else torch.zeros_like(distance, dtype=torch.bool)
        if rule["window"] > 0:
            unseen = unseen | (distance >= rule["window"])
        scores = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=dtype, device=q.device)
        for s, head in np.ndindex(q.shape[:2]):  # one matrix [tokens, tokens] at a time
            hidden = unseen if self._real is None else unseen | ~self._real[s].to(q.device)
            z = q[s, head].to(dtype) @ k[s, head * k.shape[1] // q.shape[1]].to(dtype).T * rule["scale"]
            if rule["soft_cap"] > 0:
                z = (z / rule["soft_cap"]).tanh() * rule["soft_cap"]
            scores[s, :, head] = z.abs().masked_fill(hidden, 0).amax(-1)
        self._signals[(sublayer, "scores")] = self._rows(scores)

    def _has_shared_gradient(self, sublayer: int) -> bool:
        """Returns whether the gradient of the parameter W_k is the sum of the gradients of W_k and W_v."""
        if not self._layout.are_keys_values(sublayer):
            return False
        part = self._layout.parts[(sublayer, "k")]
        module = self._module_of(part)
        return not is_adapted(module) and bool(trained_of(module, part["rows"]))

    def record_after_dropout(self, before: Any, after: Any) -> None:
        """Records a branch after dropout, as it is added to the stream."""
        if self._branch is not None and self._branch[1] is before:
            self._record(Place(self._branch[0], "B_out"), after, after)

    def _record_input(self, places: list[Place], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Records a module's input. Returns its new arguments if they change."""
        x = arguments[0] if arguments else named["hidden_states"]
        is_shared = any(p.of_heads or (self._layout.info["parallel"] and p.signal == "x_in" and p.sublayer % 2)
                        for p in places)  # fmt: skip
        if is_shared and self._is_recording():  # the gradient of a view excludes other readers of the tensor
            x = x.view_as(x)
        self._record_all(places, x)
        if not is_shared:
            return None
        return ((x, *arguments[1:]), named) if arguments else (arguments, {**named, "hidden_states": x})

    def _record_all(self, places: list[Place], x: Any) -> None:
        for place in places:
            self._record(place, x, place.view(x))
            if place.signal in ("f_out", "B_out") and self._is_recording():
                self._branch = (place.sublayer, x)

    def _record(self, place: Place, x: Any, view: Any) -> None:
        """Records a signal and later its gradient; ``view`` is x as [sequences, tokens, columns]."""
        key = (place.sublayer, place.signal)
        if not self._is_recording() or key in self._signals:
            return
        rows = self._rows(view)
        if place.signal in ("q_projected", "k_projected") and not self._layout.info["rotates"][place.sublayer // 2]:
            layer = place.sublayer // 2
            info = self._layout.info
            heads = info["heads"] if place.signal == "q_projected" else info["kv_heads"][layer]
            parts = view.detach().unflatten(-1, (heads, -1)).transpose(1, 2)
            if place.signal == "q_projected":
                self._queries = parts
            else:
                self._record_scores(place.sublayer, self._queries, parts)
        if place.signal not in _WHOLE:
            self._signals[key] = rows.abs().amax(-1, keepdim=True)
        else:  # copied because modules may change x in place; one copy if two signals are the same tensor
            if self._latest is None or self._latest[0] is not x or self._latest[1] != _version(x):
                self._latest = (x, _version(x), rows.clone())
            self._signals[key] = self._latest[2]
        needs_gradient = place.signal in _WHOLE or place.through is not None
        if not (self._gradients and x.requires_grad and needs_gradient):
            return
        gradients = self._signal_gradients  # stays bound to this pass if another pass replaces it
        sums = self._sums.get((place.sublayer // 2, str(place.through)), [])
        is_summed = place.through in ("k", "v") and self._has_shared_gradient(place.sublayer)
        a_out = self._signals[(place.sublayer, "A_out")].double() if is_summed else None

        def on_gradient(gradient: Any) -> None:
            if self._backward_pass is None:
                self._backward_pass = _current_backward_pass()
            if self._backward_pass != _current_backward_pass():
                return
            gradient = self._rows(place.view(gradient))
            if place.through is None:
                gradients.setdefault(key, gradient)
                return
            part = self._layout.parts[(place.sublayer, place.through)]  # read before the optimizer changes the matrix
            w = _rows_of(part, weight_of(self._module_of(part)))
            w = (w.T if part["transposed"] else w).to(gradient.dtype)
            gradients.setdefault((place.sublayer, f"{place.through}_in"), gradient @ w)
            if a_out is not None:
                sums[:] = [float((gradient.T.double() @ a_out).square().sum())]

        x.register_hook(on_gradient)

    def _rows(self, x: Any) -> Any:
        """Returns x [sequences, tokens, columns] as [real tokens, columns]."""
        rows = x.detach().flatten(0, -2)
        return rows if self._real is None else rows[self._real.flatten().to(rows.device)]

    # Backward pass.
    def _add_sum(self, gradient: Any, part: dict[str, Any], sums: list[float], index: int) -> None:
        """Stores the square of a gradient of the recorded backward pass; gradients of other passes are ignored."""
        import torch

        if self._backward_pass == _current_backward_pass() and math.isnan(sums[index]):
            gradient = gradient if is_adapted(self._module_of(part)) else _rows_of(part, gradient)
            sums[index] = float(gradient.detach().to(torch.float64).square().sum())

    # Results.
    def replay_arguments(self) -> dict[str, Any]:
        """Returns the recorded pass as arguments of the compiled module's ``replay``, signals in dataflow order. Raises
        InputError if the training loop changed recorded tensors or mixed two passes, or if the pass skipped a layer."""
        import torch

        if self._has_mixed_passes:
            raise InputError("record: found two passes before one backward pass, so its gradients mix both; expected "
                             "one pass, or gradients=False")  # fmt: skip
        if self._logits is not None and _version(self._logits) != self._logits_version:
            raise InputError("record: found logits that were changed in place; expected no changes during the step")
        single = any(x.dtype.itemsize <= 4 for x in self._signals.values())
        stream = {x.dtype for (_, signal), x in self._signals.items() if signal in ("x_in", "sum", "x_out")}
        return {
            "lengths": self._lengths(),
            "ids": self._rows(self._ids[..., None]).flatten().tolist(),
            "labels": self._labels_of(),
            "signals": [*self._forward(), *self._backward()],
            "gradients": [(layer, weight, sum(sums)) for (layer, weight), sums in sorted(self._sums.items())
                          if sums and not math.isnan(sum(sums))],
            "logits": None if self._logits is None else _numbers(self._rows(self._logits)),
            "dtype": "f32" if single else "f64",
            "unit_roundoff": max(float(torch.finfo(dtype).eps) for dtype in stream) / 2,
        }

    def _lengths(self) -> list[int]:
        """Returns the number of real tokens of every sequence that has any."""
        if self._real is None:
            return [int(self._ids.shape[1])] * int(self._ids.shape[0])
        return [length for length in self._real.sum(1).tolist() if length > 0]

    def _labels_of(self) -> list[int]:
        """Returns the label of every position, from the batch or else the next token; −1 for no label."""
        import torch

        causal = self._layout.info["causal"]
        if self._logits is None or (self._labels is None and not causal):
            return [-1] * sum(self._lengths())
        labels = self._ids if self._labels is None else self._labels.detach().cpu()
        if self._real is not None:
            labels = labels.masked_fill(~self._real.cpu(), -1)
        if causal:
            labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -1)], dim=1)
        return list(self._rows(labels.clip(min=-1)[..., None]).flatten().tolist())

    def _with_aliases(self, recorded: Signals) -> Signals:
        """Returns signals and aliases: f_out also as B_out if norm B is absent, and the next x_in also as x_out, except
        between parallel modules."""
        found = dict(recorded)
        for s, rule in enumerate(self._rules):
            if not rule["norm_b"] and (s, "f_out") in found:
                found.setdefault((s, "B_out"), found[(s, "f_out")])
            if (s + 1, "x_in") in found and self._ends_step(s):
                found.setdefault((s, "x_out"), found[(s + 1, "x_in")])
        if (0, "x_in") in found:
            found[(-1, "x_out")] = found[(0, "x_in")]
        return found

    def _forward(self) -> list[tuple[int, str, bool, np.ndarray]]:
        found = self._with_aliases(self._signals)
        last = len(self._rules) - 1
        plain = [2 * layer for layer, rotates in enumerate(self._layout.info["rotates"]) if not rotates]
        needed = [(s, signal) for s in range(last + 1) for signal in ("x_in", "f_out")] + [(last, "x_out")]
        needed += [(s, signal) for s in plain for signal in ("q_projected", "k_projected")]
        skipped = next((s // 2 for s, signal in needed if (s, signal) not in found), None)
        if skipped is not None:
            raise InputError(f"record: layer {skipped} was skipped, or fused code replaced its modules; expected all "
                             "layers (layerdrop = 0) without fused code")  # fmt: skip
        for s, rule in enumerate(self._rules):
            if not rule["norm_a"]:
                found.setdefault((s, "A_out"), found[(s, "x_in")])
            if not rule["norm_c"] and self._ends_step(s):
                found.setdefault((s, "sum"), found[(s, "x_out")])
            if s in plain:
                for signal in ("q", "k"):
                    found.setdefault((s, signal), found[(s, f"{signal}_projected")])
        return self._arrays(found, _FORWARD, range(-1, last + 1), False)

    def _backward(self) -> list[tuple[int, str, bool, np.ndarray]]:
        if not self._signal_gradients:
            return []
        found = self._with_aliases(self._signal_gradients)
        for s, rule in enumerate(self._rules):
            places = [(s, f"{weight}_in") for weight in OUTPUT_OF if (s, weight) in self._layout.parts]
            parts = [found.pop(place) for place in places if place in found]
            if len(parts) == len(places):  # otherwise a part is unknown, for example of a frozen matrix
                found.update(zip(places, parts, strict=True))
                if not rule["norm_a"]:
                    found[(s, "A_out")] = sum(parts)
        return self._arrays(found, _BACKWARD, range(len(self._rules) - 1, -2, -1), True)

    def _ends_step(self, sublayer: int) -> bool:
        """Returns whether the stream changes after the sublayer, and not only after the layer's MLP."""
        return sublayer % 2 == 1 or not self._layout.info["parallel"]

    def _arrays(
        self, found: Signals, order: tuple[str, ...], sublayers: range, is_gradient: bool
    ) -> list[tuple[int, str, bool, np.ndarray]]:
        """Returns one array per signal, numbered by additions to the stream or by sublayers. Signals that are the same
        tensor share one array and are measured once."""
        known: dict[int, np.ndarray] = {}
        arrays = []
        for s in sublayers:
            for signal in order:
                x = found.get((s, signal))
                if x is None:
                    continue
                if id(x) not in known:
                    known[id(x)] = _numbers(x)
                is_halved = self._layout.info["parallel"] and signal in ("sum", "x_out") and s >= 0
                arrays.append((s // 2 if is_halved else s, signal, is_gradient, known[id(x)]))
        return arrays


def _rows_of(part: dict[str, Any], tensor: Any) -> Any:
    """Returns the part of a stored tensor, such as a fused QKV matrix, that holds the matrix `part`."""
    rows = features_of(part)
    return tensor[:, rows] if part["transposed"] else tensor[rows]


def _real_tokens(ids: Any, mask: Any) -> Any:
    """Returns attention_mask as a Boolean tensor, or None if no token is padding. Raises InputError if all are."""
    if mask is None or not _is_plain(mask) or bool((mask != 0).all()):
        return None
    if mask.shape != ids.shape or not bool((mask != 0).any()):
        raise InputError(f"record: found an attention_mask of shape {list(mask.shape)} for input_ids of shape "
                         f"{list(ids.shape)}; expected one shape with at least one token")  # fmt: skip
    return (mask != 0).detach()


def _is_plain(mask: Any) -> bool:
    """Returns whether a mask is [sequences, tokens]; others say which tokens each token sees."""
    return hasattr(mask, "dim") and mask.dim() == 2


def _by_name(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a module's call by name; only keyword arguments if they do not match its signature."""
    try:
        return {**inspect.signature(module.forward).bind_partial(*arguments, **named).arguments, **named}
    except (TypeError, ValueError):
        return named


def _current_backward_pass() -> int:
    """Returns the id of the running backward pass; 0 if this version of torch does not provide it."""
    import torch

    return int(getattr(torch._C, "_current_graph_task_id", int)())


def _version(x: Any) -> Any:
    """Returns the number of in-place changes of a tensor; None for tensors of inference_mode, which have no count."""
    try:
        return x._version
    except RuntimeError:
        return None


def _numbers(x: Any) -> np.ndarray:
    import torch

    return np.ascontiguousarray(x.detach().to(device="cpu", dtype=torch.float64).numpy())
