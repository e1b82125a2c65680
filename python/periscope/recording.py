"""Records the signals of an unmodified transformers model in the caller's training loop, measured as in ``probe``."""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _hooks, _layout, _wrappers, dataset
from .errors import ConfigError, InputError, whole
from .model import compiled_from_torch, plain_of

if TYPE_CHECKING:
    import xarray as xr


_LOCK = threading.Lock()
_RECORDED: "weakref.WeakSet[Any]" = weakref.WeakSet()  # an attribute of the model would be copied with it


def _observable_of(model: Any, gradients: bool) -> Any:
    """Returns the transformers model in ``model``. Raises InputError if hooks cannot observe its signals."""
    base = plain_of(model)
    if gradients and any(_wrappers.has_lora_dropout(part) for part in base.modules()):
        raise InputError("model: found dropout in LoRA adapters, whose masks the gradients of their inputs depend on; "
                         "expected lora_dropout = 0, or gradients=False")  # fmt: skip
    if gradients and any(_is_reentrant(part) for part in base.modules()):
        raise InputError("model: found gradient checkpointing with use_reentrant=True, whose backward pass consists of "
                         "separate passes; expected use_reentrant=False, or gradients=False")  # fmt: skip
    return base


def _is_reentrant(part: Any) -> bool:
    """Returns whether a module of transformers checkpoints its activations with nested backward passes."""
    options = getattr(getattr(part, "_gradient_checkpointing_func", None), "keywords", {})
    return getattr(part, "gradient_checkpointing", False) and options.get("use_reentrant", True)


class Recorder:
    """Context manager that records a transformers model (Llama, Gemma 2, OLMo 2, Qwen 3, …: any family that ``probe``
    supports) during training::

        with ps.record(model, every=50) as recorder:
            for batch in loader:
                model(**batch).loss.backward()
                optimizer.step(); optimizer.zero_grad()
                recorder.step()
        recorder.dataset.second_moment_measured.plot(x="depth", hue="step")

    Records the steps 0, ``every``, 2·``every``, … or the given ``steps``; other steps have no hooks. A record covers
    the tokens of the first micro-batch that are not padding: the stream, the outputs of norms, modules and projections,
    queries and keys after RoPE and QK-norm. With ``gradients`` it also covers the gradients of the stream and of every
    matrix, for the loss of the ``backward`` call; passes without gradients, such as validation, are then ignored.
    Dropout stays active, unlike in ``probe``: ``B_out`` is the branch after dropout. With ``optimizer``, each call of
    its ``step`` ends a step, so that ``recorder.step()`` need not be called. ``on_record(step, dataset)`` is called
    with every new record. For ``ignore_keys`` see ``from_torch``.

    A PeftModel with one plain LoRA adapter is recorded as the model that it computes. The squared gradient of an
    adapted matrix is the sum over A and B. It is missing for parts of an adapted matrix, such as GPT-2's W_q.

    Compiled models run without compilation in recorded steps (torch 2.6 or later). In distributed training, the process
    of rank 0 records its own batches, and the others have no records.

    Raises InputError for a model that is sharded or quantized, has other adapters of PEFT, or checkpoints its
    activations with ``use_reentrant=True`` and ``gradients``. The end of a step raises it for two passes before one
    backward pass, and for skipped layers.
    """

    def __init__(
        self,
        model: Any,
        *,
        every: int = 50,
        steps: Iterable[int] | None = None,
        gradients: bool = True,
        optimizer: Any = None,
        top: int = 10,
        on_record: Callable[[int, "xr.Dataset"], None] | None = None,
        ignore_keys: Sequence[str] = (),
    ) -> None:
        every, top = whole("every", every), whole("top", top)
        base = _observable_of(model, gradients)
        self._model = _wrappers.called_module(model)
        chosen = None if steps is None else {whole("steps", step, 0) for step in steps}
        self._due: Callable[[int], bool] = lambda step: step % every == 0 if chosen is None else step in chosen
        self._gradients = gradients
        self._optimizer = getattr(optimizer, "optimizer", optimizer)  # unwraps wrappers such as Accelerate's
        if optimizer is not None and not hasattr(self._optimizer, "register_step_post_hook"):
            raise ConfigError(f"optimizer: found {type(optimizer).__name__}; expected an optimizer of torch.optim")
        self._top = top
        self._on_record = on_record
        self._ignore_keys = ignore_keys
        self._layout = _layout.layout_of(base, self._compiled_of(base))
        self._compiled: Any = None  # the model with the gains of the recorded step
        self._step = 0
        self._is_entered = False
        self._hooks: _hooks.StepHooks | None = None
        self._optimizer_hook: Any = None
        #: Records by step, one dataset per step.
        self.datasets: dict[int, xr.Dataset] = {}

    def __enter__(self) -> "Recorder":
        with _LOCK:
            if self._model in _RECORDED:
                raise InputError("record: the model is already recorded; expected one recorder at a time")
            _RECORDED.add(self._model)
        self._is_entered = True
        try:
            self._begin()
        except BaseException:
            self._is_entered = False
            _RECORDED.discard(self._model)
            raise
        if self._optimizer is not None:
            self._optimizer_hook = self._optimizer.register_step_post_hook(lambda *_: self.step())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._optimizer_hook is not None:
            self._optimizer_hook.remove()
        self._is_entered = False
        _RECORDED.discard(self._model)
        if kind is None:
            self._end()
        elif self._hooks is not None:
            self._hooks.close()

    def step(self) -> None:
        """Ends a training step and measures its recorded signals."""
        try:
            self._end()
        finally:
            self._step += 1
            self._begin()

    @property
    def dataset(self) -> "xr.Dataset":
        """All records so far, along the dimension ``step``. Raises InputError if there are none, or if batches differ
        in size; use ``datasets`` then."""
        import xarray as xr

        if not self.datasets:
            raise InputError("record: found no recorded step; expected a forward pass inside the context"
                             + (", one with gradients, or gradients=False" if self._gradients else ""))  # fmt: skip
        sizes = {tuple(sorted((str(k), v) for k, v in ds.sizes.items())) for ds in self.datasets.values()}
        if len(sizes) > 1:
            raise InputError("record: found batches of different sizes; expected one size, or use recorder.datasets")
        along = xr.DataArray(list(self.datasets), dims="step", name="step")
        along.attrs.update(units="1", long_name="training steps done")
        return xr.concat(list(self.datasets.values()), dim=along, data_vars="all", coords="minimal", compat="override",
                         join="exact", combine_attrs="override")  # fmt: skip

    def _begin(self) -> None:
        if self._is_entered and self._due(self._step) and _wrappers.rank() == 0:
            base = _observable_of(self._model, self._gradients)
            self._compiled = self._compiled_of(base)
            self._hooks = _hooks.StepHooks(self._model, base, self._layout, self._gradients)

    def _compiled_of(self, base: Any) -> Any:
        return compiled_from_torch(base, copy=False, only_vectors=True, ignore_keys=self._ignore_keys)

    def _end(self) -> None:
        hooks, self._hooks = self._hooks, None
        if hooks is None:
            return
        hooks.close()
        if hooks.is_complete and _wrappers.rank() == 0:  # otherwise no forward pass took place
            from . import _periscope

            result = _periscope.replay(self._compiled, **hooks.replay_arguments(), top=self._top)
            self.datasets[self._step] = dataset.of_result(result, [])
            if self._on_record is not None:
                self._on_record(self._step, self.datasets[self._step])


record = Recorder
