"""Records of somebody else's training loop: the signals of an unmodified model of transformers, measured as ``probe``
measures them."""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _hooks, _layout, dataset
from .errors import ConfigError, InputError, whole
from .model import compiled_from_torch, require_plain

if TYPE_CHECKING:
    import xarray as xr


_LOCK = threading.Lock()
_RECORDED: "weakref.WeakSet[Any]" = weakref.WeakSet()  # not an attribute of the models, which copies would have too


def _require_seen(model: Any) -> None:
    """Raises InputError for a model whose signals hooks cannot see."""
    require_plain(model)
    for part in model.modules():
        if (type(part).__name__ == "OptimizedModule" or getattr(part, "_compiled_call_impl", None) is not None
                or hasattr(part.forward, "_torchdynamo_orig_callable")):  # fmt: skip
            raise InputError(f"model: {type(part).__name__} is compiled, and hooks see no signals of such code; "
                             "expected a model without compiled modules")  # fmt: skip


class Recorder:
    """A context in which a model of transformers (Llama, Gemma 2, OLMo 2, Qwen 3, …: any family that ``probe`` reads)
    is recorded while it trains::

        with ps.record(model, every=50) as recorder:
            for batch in loader:
                model(**batch).loss.backward()
                optimizer.step(); optimizer.zero_grad()
                recorder.step()
        recorder.dataset.second_moment_measured.plot(x="depth", hue="step")

    Recorded are the steps 0, ``every``, 2·``every``, … or ``steps``; in between there are no hooks. Of a recorded step
    it is the first micro-batch: the stream, the outputs of norms, modules and projections, queries and keys as the
    heads read them, with eager attention the scores, and with ``gradients`` the gradients of the stream and of every
    matrix, of the loss that ``backward`` was called on. Passes without gradients in between, as a validation's, do not
    count then. Dropout stays active as in the model, while ``probe`` has none: ``B_out`` is the branch after dropout.
    With ``optimizer`` a call of its ``step`` ends a step, so that ``recorder.step()`` need not be called.
    ``ignore_keys`` as in ``from_torch``.

    Raises InputError for a model that is sharded, quantized, compiled, checkpoints its activations or has adapters of
    PEFT; in the pass for batches with padding and calls of ``torch.compile(model)``, where the plain module has to be
    called; and at the step's end for two passes before one backward pass, or a pass that skips layers.
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
        ignore_keys: Sequence[str] = (),
    ) -> None:
        every, top = whole("every", every), whole("top", top)
        _require_seen(model)
        if gradients and any(getattr(part, "gradient_checkpointing", False) for part in model.modules()):
            raise InputError("model: found gradient checkpointing, which makes every signal twice; expected none, or "
                             "gradients=False")  # fmt: skip
        self._model = model
        chosen = None if steps is None else {whole("steps", step, 0) for step in steps}
        self._due: Callable[[int], bool] = lambda step: step % every == 0 if chosen is None else step in chosen
        self._gradients = gradients
        self._optimizer = getattr(optimizer, "optimizer", optimizer)  # in a wrapper, as Accelerate's
        if optimizer is not None and not hasattr(self._optimizer, "register_step_post_hook"):
            raise ConfigError(f"optimizer: found {type(optimizer).__name__}; expected one of torch.optim")
        self._top = top
        self._ignore_keys = ignore_keys
        self._layout = _layout.layout_of(model, compiled_from_torch(model, copy=False, ignore_keys=ignore_keys))
        self._compiled: Any = None  # with the gains of the recorded step
        self._step = 0
        self._is_entered = False
        self._watched: _hooks.Watched | None = None
        self._of_optimizer: Any = None
        #: The records, one dataset each, by step.
        self.datasets: dict[int, xr.Dataset] = {}

    def __enter__(self) -> "Recorder":
        with _LOCK:
            if self._model in _RECORDED:
                raise InputError("record: found a model that is recorded already; expected one recorder at a time")
            _RECORDED.add(self._model)
        self._is_entered = True
        try:
            self._begin()
        except BaseException:
            self._is_entered = False
            _RECORDED.discard(self._model)
            raise
        if self._optimizer is not None:
            self._of_optimizer = self._optimizer.register_step_post_hook(lambda *_: self.step())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._of_optimizer is not None:
            self._of_optimizer.remove()
        self._is_entered = False
        _RECORDED.discard(self._model)
        if kind is None:
            self._end()
        elif self._watched is not None:
            self._watched.close()

    def step(self) -> None:
        """A step of training is over. What was recorded in it is measured now."""
        try:
            self._end()
        finally:
            self._step += 1
            self._begin()

    @property
    def dataset(self) -> "xr.Dataset":
        """All records so far, along the dimension ``step``. Raises InputError where there are none, or where they are
        of batches of unlike sizes: then take them from ``datasets``."""
        import xarray as xr

        if not self.datasets:
            raise InputError("record: found no recorded step; expected a forward pass within the context"
                             + (", one with gradients, or gradients=False" if self._gradients else ""))  # fmt: skip
        sizes = {tuple(sorted((str(k), v) for k, v in ds.sizes.items())) for ds in self.datasets.values()}
        if len(sizes) > 1:
            raise InputError("record: found batches of unlike sizes; expected one size, or take recorder.datasets")
        along = xr.DataArray(list(self.datasets), dims="step", name="step")
        along.attrs.update(units="1", long_name="steps of training that were done")
        return xr.concat(list(self.datasets.values()), dim=along, data_vars="all", coords="minimal", compat="override",
                         join="exact", combine_attrs="override")  # fmt: skip

    def _begin(self) -> None:
        if self._is_entered and self._due(self._step):
            _require_seen(self._model)
            self._compiled = compiled_from_torch(
                self._model, copy=False, copied_vectors=True, ignore_keys=self._ignore_keys
            )
            self._watched = _hooks.Watched(self._model, self._layout, self._gradients)

    def _end(self) -> None:
        watched, self._watched = self._watched, None
        if watched is None:
            return
        watched.close()
        if watched.is_complete:  # else no forward pass since
            from . import _periscope

            result = _periscope.replay(self._compiled, **watched.outcome(), top=self._top)
            self.datasets[self._step] = dataset.of_result(result, [])


record = Recorder
