"""A stand-in for the parts of torch that a recorder without gradients uses, built on numpy, and a Llama."""

import json
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


class Tensor(np.ndarray):
    requires_grad = is_nested = False
    layout = "strided"
    _version = 0
    device = types.SimpleNamespace(type="cpu")
    detach = cpu = contiguous = resolve_neg = lambda self: self
    clone = np.ndarray.copy
    dim = lambda self: self.ndim  # noqa: E731
    numel = lambda self: self.size  # noqa: E731
    abs = lambda self: np.abs(self)  # noqa: E731
    numpy = lambda self: np.asarray(self)  # noqa: E731
    data_ptr = lambda self: self.ctypes.data  # noqa: E731
    transpose = np.ndarray.swapaxes

    def amax(self, axis: int, keepdim: bool = False) -> Any:
        return self.max(axis, keepdims=keepdim)

    def flatten(self, first: int = 0, last: int = -1) -> Any:
        last %= self.ndim
        return self.reshape(*self.shape[:first], -1, *self.shape[last + 1 :])

    def masked_fill(self, mask: Any, value: float) -> Any:
        return np.where(mask, value, self).view(Tensor)

    def to(self, device: str, dtype: Any) -> Any:
        return self.astype(dtype)


def tensor(values: Any) -> Any:
    return np.array(values).view(Tensor)


_MODES = threading.local()


class TorchFunctionMode:
    def __enter__(self) -> None:
        _MODES.__dict__.setdefault("stack", []).append(self)

    def __exit__(self, *_: object) -> None:
        assert _MODES.stack.pop() is self


def _seen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose calls the innermost mode intercepts."""

    def called(*arguments: Any, **named: Any) -> Any:
        stack = getattr(_MODES, "stack", [])
        if not stack:
            return function(*arguments, **named)
        mode = stack.pop()
        try:
            return mode.__torch_function__(called, (), arguments, named)
        finally:
            stack.append(mode)

    return called


@_seen
def softmax(x: Any, dim: int) -> Any:
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


@_seen
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return input * (np.random.default_rng(1).random(input.shape) >= p) / (1 - p) if training else input


# Functions whose frames have the names of those of torch.compile and torch.compiler.disable.
_DYNAMO: dict[str, Any] = {"__name__": "torch._dynamo.eval_frame"}
exec(
    """
class _TorchDynamoContext:
    def __call__(self, call):
        def compile_wrapper(*arguments, **named):
            return call(*arguments, **named)
        compile_wrapper._torchdynamo_orig_callable = call
        return compile_wrapper
class DisableContext:
    def __call__(self, call):
        def _fn(*arguments, **named):
            return call(*arguments, **named)
        return _fn
""",
    _DYNAMO,
)
compile = _DYNAMO["_TorchDynamoContext"]()  # noqa: A001


def install() -> None:
    """Makes `import torch` return this module's stand-in."""
    def disable(call: Callable[..., Any], reason: str) -> Callable[..., Any]:
        return _DYNAMO["DisableContext"]()(call)  # type: ignore[no-any-return]

    functional = types.SimpleNamespace(softmax=softmax, dropout=dropout)
    torch = types.ModuleType("torch")
    torch.__dict__.update(
        nn=types.SimpleNamespace(functional=functional), softmax=softmax, finfo=np.finfo, float64=np.float64,
        uint8=np.uint8, strided="strided", is_grad_enabled=lambda: False, full_like=np.full_like,
        cat=lambda parts, dim: np.concatenate(parts, dim), compiler=types.SimpleNamespace(disable=disable),
    )  # fmt: skip
    overrides = types.ModuleType("torch.overrides")
    overrides.TorchFunctionMode = TorchFunctionMode  # type: ignore[attr-defined]
    sys.modules.update({"torch": torch, "torch.overrides": overrides})


class Handle:
    def __init__(self, hooks: dict[int, Any]) -> None:
        self.hooks, self.id = hooks, next(i for i in range(len(hooks) + 1) if i not in hooks)

    def remove(self) -> None:
        self.hooks.pop(self.id, None)


class Module:
    """A module that stores, calls, copies and pickles hooks as torch's does."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._after: dict[int, Any] = {}

    def register_forward_pre_hook(self, hook: Any, with_kwargs: bool = False) -> Handle:
        handle = Handle(self._before)
        self._before[handle.id] = (hook, with_kwargs)
        return handle

    def register_forward_hook(self, hook: Any, with_kwargs: bool = False, always_call: bool = False) -> Handle:
        handle = Handle(self._after)
        self._after[handle.id] = (hook, with_kwargs, always_call)
        return handle

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        def after(output: Any) -> Any:
            for hook, with_kwargs, always in tuple(self._after.values()):
                if output is not None or always:
                    assert hook(self, arguments, *([named] if with_kwargs else []), output) is None
            return output

        try:
            for hook, with_kwargs in tuple(self._before.values()):
                hook(self, arguments, *([named] if with_kwargs else []))
            output = self.forward(*arguments, **named)
        except Exception:  # torch calls no hooks after KeyboardInterrupt
            after(None)
            raise
        return after(output)

    def forward(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    def named_modules(self, within: str = "") -> Iterator[tuple[str, "Module"]]:
        yield within, self
        for name, part in vars(self).items():
            if isinstance(part, Module):
                yield from part.named_modules(f"{within}.{name}".lstrip("."))

    def modules(self) -> Iterator["Module"]:
        return (part for _, part in self.named_modules())

    def get_submodule(self, name: str) -> "Module":
        return dict(self.named_modules())[name]

    def state_dict(self) -> dict[str, Any]:
        return {f"{name}.{key}".lstrip("."): value for name, part in self.named_modules()
                for key, value in vars(part).items() if isinstance(value, Tensor)}  # fmt: skip

    named_parameters = state_dict


class Linear(Module):
    weight: Any
    bias: Any = 0.0

    def forward(self, x: Any) -> Any:
        return x @ self.weight.T + self.bias


class Norm(Module):
    weight: Any

    def forward(self, x: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.weight


def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    def rotated(x: Any) -> Any:
        half = x.shape[-1] // 2
        return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin

    return rotated(q).view(Tensor), rotated(k).view(Tensor)


class Attention(Module):
    def forward(self, x: Any) -> Any:
        def heads(y: Any) -> Any:
            return y.reshape(*y.shape[:2], -1, 6).transpose(1, 2)

        q, k, v = (heads(vars(self)[name](x)) for name in ("q_proj", "k_proj", "v_proj"))
        angle = np.arange(x.shape[1])[:, None] / 2.5 * 5000.0 ** (-np.arange(3) / 3)
        angle = np.concatenate([angle, angle], -1)
        q, k = apply_rotary_pos_emb(q, k, np.cos(angle), np.sin(angle))
        k, v = (np.repeat(y, 2, axis=1) for y in (k, v))
        scores = q @ k.transpose(2, 3) / np.sqrt(6.0) + np.triu(np.full((x.shape[1],) * 2, np.finfo(float).min), 1)
        mixed = (softmax(scores, dim=-1) @ v).transpose(1, 2)
        return dropout(self.o_proj(mixed.flatten(2)), self.dropped, self.dropped > 0)

    dropped = 0.0


class Mlp(Module):
    def forward(self, x: Any) -> Any:
        gate = self.gate_proj(x)
        return dropout(self.down_proj(gate / (1 + np.exp(-gate)) * self.up_proj(x)), p=self.dropped,
                       training=self.dropped > 0)  # fmt: skip

    dropped = 0.0


class Layer(Module):
    def forward(self, x: Any) -> Any:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(Module):
    def forward(self, ids: Any) -> Any:
        x = self.embed_tokens.weight[ids].astype(np.float64)
        for name, layer in vars(self.layers).items():
            if name.isdigit():
                x = layer(x)
        return self.norm(x)


class LlamaForCausalLM(Module):
    """The fixture in `folder`, in f64."""

    KINDS = {"self_attn": Attention, "mlp": Mlp, "model": Stack, "0": Layer, "1": Layer}

    def __init__(self, folder: Path, tensors: dict[str, np.ndarray]) -> None:
        super().__init__()
        text = (folder / "config.json").read_text()
        self.config = types.SimpleNamespace(to_json_string=Text(json.loads(text)))
        for name, values in tensors.items():
            *path, last = name.split(".")
            at: Any = self
            for part in path:
                kind = Norm if part.endswith("norm") else Linear
                if part not in vars(at):
                    setattr(at, part, self.KINDS.get(part, kind)())
                at = getattr(at, part)
            setattr(at, last, values.astype(np.float64).view(Tensor))

    def forward(self, input_ids: Any, attention_mask: Any = None, labels: Any = None) -> Any:
        return types.SimpleNamespace(logits=self.lm_head(self.model(input_ids)))


class Text:
    def __init__(self, config: Any) -> None:
        self.config = config

    def __call__(self, use_diff: bool) -> str:
        return json.dumps(self.config)
