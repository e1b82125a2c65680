"""Every study as a function. Made by generate.py from the program's registry of studies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xarray as xr

from . import _keys
from ._run import CheckpointLike, PathLike, Progress, Record, TokenizerLike, TokensLike
from ._run import run as run_study
from .config import ConfigLike

__all__ = [
    "propagate",
    "theory",
    "ladder",
    "gradients_depth",
    "gradients_attenuation",
    "gradients_identity_path",
    "gradients_score_path",
    "gradients_crossover",
    "power",
    "formats",
    "verify",
    "certify",
    "probe",
    "train",
    "first_steps",
    "reproduce",
]


def propagate(
    config: ConfigLike = None,
    *,
    fail_on_divergence: bool = False,
    backward: bool = False,
    dump: PathLike | None = None,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Predict and measure the signals of random stacks; say whether they agree.

    Returns a dataset of the kind 'stack' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        fail_on_divergence: Exit 5 if the mean square of a seed's stream stops being finite.
        backward: Predict and measure gradients too.
        dump: Folder for weights, activations and, with backward, gradients of the first seed, in f64.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "propagate",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
        },
        flags={"fail-on-divergence": fail_on_divergence, "backward": backward, "dump": dump},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def theory(
    config: ConfigLike = None,
    *,
    backward: bool = False,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Print the prediction alone.

    Returns a dataset of the kind 'stack' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        backward: Predict gradients too.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "theory",
        config,
        sections={"model": model, "init": init, "input": input, "run": run, "theory": theory},
        flags={"backward": backward},
        common={"seed": seed, "seeds": seeds, "threads": threads, "out": out, "force": force},
        progress=progress,
        check=check,
    )


def ladder(
    config: ConfigLike = None,
    *,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    ladder: _keys.LadderKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Follow every number along growing widths: is its limit what theory says, and how fast is it approached?

    Returns a dataset of the kind 'ladder' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        ladder: Keys of [ladder] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "ladder",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "ladder": ladder,
        },
        flags={},
        common={
            "seed": seed,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def gradients_depth(
    config: ConfigLike = None,
    *,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    gradients: _keys.GradientsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """The last MLP matrix's gradient against the number of layers, with fitted exponents.

    Returns a dataset of the kind 'gradient_depth' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        gradients: Keys of [gradients] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "gradients depth",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "gradients": gradients,
        },
        flags={},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def gradients_attenuation(
    config: ConfigLike = None,
    *,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    gradients: _keys.GradientsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Rate per layer at which gradients shrink towards the input, for uniform and real attention.

    Returns a dataset of the kind 'gradient_attenuation' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        gradients: Keys of [gradients] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "gradients attenuation",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "gradients": gradients,
        },
        flags={},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def gradients_identity_path(
    config: ConfigLike = None,
    *,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    gradients: _keys.GradientsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """The gradient as a sum over paths: the skip connections alone, and the branches.

    Returns a dataset of the kind 'identity_path' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        gradients: Keys of [gradients] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "gradients identity-path",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "gradients": gradients,
        },
        flags={},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def gradients_score_path(
    config: ConfigLike = None,
    *,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    gradients: _keys.GradientsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """What queries and keys carry of the gradient, and a theory that leaves it out.

    Returns a dataset of the kind 'score_path' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        gradients: Keys of [gradients] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "gradients score-path",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "gradients": gradients,
        },
        flags={},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def gradients_crossover(
    config: ConfigLike = None,
    *,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    gradients: _keys.GradientsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """The last MLP matrix's gradient over Pre-LN's, against the size of the MLP's output.

    Returns a dataset of the kind 'gradient_crossover' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        gradients: Keys of [gradients] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "gradients crossover",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "gradients": gradients,
        },
        flags={},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def power(
    config: ConfigLike = None,
    *,
    master_seeds: float | None = None,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    ladder: _keys.LadderKeys | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory: float | str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Wrong theories against measurements: which configuration rejects which?

    Returns a dataset of the kind 'power' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        master_seeds: Instead: how often is the right theory rejected? Runs that many seeds; a journal in out keeps
            finished ones.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        ladder: Keys of [ladder] on top of ``config``; each has to act.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        memory: Memory for what would else be computed twice, in bytes or as "8G".
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "power",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "ladder": ladder,
        },
        flags={"master-seeds": master_seeds},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "memory": memory,
            "out": out,
            "force": force,
        },
        progress=progress,
        check=check,
    )


def formats(
    config: ConfigLike = None,
    *,
    backward: bool = False,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    formats: _keys.FormatsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Run stacks in number formats: does the variance law survive, what drifts, what overflows?

    Returns a dataset of the kind 'formats' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        backward: Gradients too, and the predicted noise of the stream.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        formats: Keys of [formats] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "formats",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
            "formats": formats,
        },
        flags={"backward": backward},
        common={"seed": seed, "seeds": seeds, "threads": threads, "out": out, "force": force},
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def verify(
    config: ConfigLike = None,
    *,
    cases: float | None = None,
    scale: float | None = None,
    replay: PathLike | None = None,
    run: _keys.RunKeys | None = None,
    seed: int | None = None,
    threads: int | None = None,
    out: PathLike | None = None,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Attack the bounds on gradients and growth: no input may break them.

    Returns a dataset of the kind 'verify' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        cases: Number of random cases. Default: 20000.
        scale: Multiply every bound that should hold by this; below 1 violations must be found. Default: 1.
        replay: One case alone: a JSON file, as out writes one for every violation.
        run: Keys of [run] on top of ``config``; each has to act.
        seed: First random seed.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        out: Folder for the result file; an interrupted run goes on from there.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "verify",
        config,
        sections={"run": run},
        flags={"cases": cases, "scale": scale, "replay": replay},
        common={"seed": seed, "threads": threads, "out": out},
        progress=progress,
        check=check,
    )


def certify(
    checkpoint: CheckpointLike | None = None,
    config: ConfigLike = None,
    *,
    format: str | Sequence[str] | None = None,
    require: str | Sequence[str] | None = None,
    tokens: TokensLike | None = None,
    text: PathLike | None = None,
    tokenizer: TokenizerLike | None = None,
    max_tokens: float | None = None,
    ignore_key: str | Sequence[str] | None = None,
    measure: bool = False,
    input_maximum: float | None = None,
    arithmetic: PathLike | None = None,
    length: float | None = None,
    attack: float | None = None,
    headroom: PathLike | None = None,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    seed: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Bound every signal for every input, from the weights alone.

    Returns a dataset of the kind 'certify' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        checkpoint: Folder with config.json and safetensors files; without it, the random stack of the first seed.
        config: A Config, a dictionary of keys, or the path of a TOML file.
        format: Number formats to judge: fp32, bf16, fp16, fp8_e5m2, fp8_e4m3.
        require: Exit 4 unless certified: fp16 (the residual stream), mlp:fp16 (a class), all:fp16.
        tokens: Token ids to measure beside the bounds: 5,9,2, or a file of them.
        text: Text file to measure, encoded by the tokenizer.
        tokenizer: A tokenizer file of llama2.c, or "bytes".
        max_tokens: Read only the first so many tokens.
        ignore_key: Key of config.json that does not change the function although it is unknown; repeatable.
        measure: Of a random stack: measure its input of the first seed too.
        input_maximum: Of a random stack with Gaussian input: certify real inputs with entries up to this.
        arithmetic: Arithmetic that verdicts are for: mixed (results are rounded to the format, sums are in fp32),
            pure (all in the format), exact.
        length: Longest input in tokens that is certified, where rounding makes it matter. Default: 4096.
        attack: Try to exceed the bounds, with so many steps per restart.
        headroom: Scale stream and branches into this format, run both stacks, certify the scaled one.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        seed: First random seed.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "certify",
        config,
        sections={"model": model, "init": init, "input": input, "run": run},
        flags={
            "checkpoint": checkpoint,
            "format": format,
            "require": require,
            "tokens": tokens,
            "text": text,
            "tokenizer": tokenizer,
            "max-tokens": max_tokens,
            "ignore-key": ignore_key,
            "measure": measure,
            "input-maximum": input_maximum,
            "arithmetic": arithmetic,
            "length": length,
            "attack": attack,
            "headroom": headroom,
        },
        common={"seed": seed, "threads": threads, "device": device, "dtype": dtype, "out": out, "force": force},
        progress=progress,
        check=check,
    )


def probe(
    checkpoint: CheckpointLike,
    config: ConfigLike = None,
    *,
    tokens: TokensLike | None = None,
    text: PathLike | None = None,
    tokenizer: TokenizerLike | None = None,
    max_tokens: float | None = None,
    ignore_key: str | Sequence[str] | None = None,
    labels: TokensLike | None = None,
    backward: bool = False,
    dump: PathLike | None = None,
    top: float | None = None,
    no_theory: bool = False,
    draws: float | None = None,
    fail_on_divergence: bool = False,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    theory: _keys.TheoryKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    seed: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Run a checkpoint on tokens and measure all that theory speaks of.

    Returns a dataset of the kind 'probe' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        checkpoint: Folder with config.json and safetensors files.
        config: A Config, a dictionary of keys, or the path of a TOML file.
        tokens: Token ids: 5,9,2, or a file of them.
        text: Text file, encoded by the tokenizer.
        tokenizer: A tokenizer file of llama2.c, or "bytes"; default: tok*.bin in the folder, or bytes for a
            vocabulary of 256.
        max_tokens: Read only the first so many tokens.
        ignore_key: Key of config.json that does not change the function although it is unknown; repeatable.
        labels: Ids to predict, one per token, -1 for none; default: the next token.
        backward: Gradients of the loss too.
        dump: Folder for activations.safetensors: activations and gradients in f64.
        top: Largest entries of the stream to report per depth. Default: 10.
        no_theory: Leave out theory at initialisation and at the weights' own sizes, and models of these sizes.
        draws: Random models of each law that keeps something of the weights' sizes, for the errors of what is left
            over. Default: 16.
        fail_on_divergence: Exit 5 if the mean square of a signal or a gradient, or the loss, is not finite.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        theory: Keys of [theory] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        seed: First random seed.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "probe",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "theory": theory,
            "agreement": agreement,
        },
        flags={
            "checkpoint": checkpoint,
            "tokens": tokens,
            "text": text,
            "tokenizer": tokenizer,
            "max-tokens": max_tokens,
            "ignore-key": ignore_key,
            "labels": labels,
            "backward": backward,
            "dump": dump,
            "top": top,
            "no-theory": no_theory,
            "draws": draws,
            "fail-on-divergence": fail_on_divergence,
        },
        common={"seed": seed, "threads": threads, "device": device, "dtype": dtype, "out": out, "force": force},
        progress=progress,
        check=check,
    )


def train(
    config: ConfigLike = None,
    *,
    corpus: PathLike | None = None,
    dump: PathLike | None = None,
    export: PathLike | None = None,
    fail_on_divergence: bool = False,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    train: _keys.TrainKeys | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    callback: Callable[[Record], object] | None = None,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Train twins, stacks that differ in their placement alone; record their signals.

    Returns a dataset of the kind 'train' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        corpus: File or folder whose bytes are the tokens, or synthetic: train.corpus.
        dump: Folder for the batches, the weights before and after, and every step's loss, in f64; one placement and
            one seed.
        export: Folder for the trained models, each in a folder of its own: Hugging Face's layout where a family
            computes the same.
        fail_on_divergence: Exit 5 if a run diverged.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        train: Keys of [train] on top of ``config``; each has to act.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        callback: Called with every record of every stack; False ends that stack's training there.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "train",
        config,
        sections={"model": model, "init": init, "input": input, "run": run, "train": train},
        flags={"corpus": corpus, "dump": dump, "export": export, "fail-on-divergence": fail_on_divergence},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "out": out,
            "force": force,
        },
        callback=callback,
        progress=progress,
        check=check,
    )


def first_steps(
    config: ConfigLike = None,
    *,
    corpus: PathLike | None = None,
    dump: PathLike | None = None,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    agreement: _keys.AgreementKeys | None = None,
    train: _keys.TrainKeys | None = None,
    first_steps: _keys.FirstStepsKeys | None = None,
    theory_set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Predict what the first optimizer steps do to a stack's signals, train it, say whether they agree.

    Returns a dataset of the kind 'first_steps' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        corpus: File or folder whose bytes are the tokens, or synthetic: train.corpus.
        dump: Folder for the batches, the held-out windows, the weights before and after, and every step's loss, in
            f64; one placement and one seed.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        agreement: Keys of [agreement] on top of ``config``; each has to act.
        train: Keys of [train] on top of ``config``; each has to act.
        first_steps: Keys of [first_steps] on top of ``config``; each has to act.
        theory_set: What theory is told instead of the truth, as ``{"model.rope": False}``.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "first-steps",
        config,
        sections={
            "model": model,
            "init": init,
            "input": input,
            "run": run,
            "agreement": agreement,
            "train": train,
            "first_steps": first_steps,
        },
        flags={"corpus": corpus, "dump": dump},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "out": out,
            "force": force,
        },
        theory_set=theory_set,
        progress=progress,
        check=check,
    )


def reproduce(
    config: ConfigLike = None,
    *,
    figure: str | Sequence[str] | None = None,
    corpus: PathLike | None = None,
    quick: bool = False,
    model: _keys.ModelKeys | None = None,
    init: _keys.InitKeys | None = None,
    input: _keys.InputKeys | None = None,
    run: _keys.RunKeys | None = None,
    train: _keys.TrainKeys | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    progress: Progress = False,
    check: bool = False,
) -> xr.Dataset:
    """Train what the paper's figures show, at proxy scale; test its claims.

    Returns a dataset of the kind 'reproduce' (``periscope.columns``). Raises ConfigError and InputError.

    Arguments:
        config: A Config, a dictionary of keys, or the path of a TOML file.
        figure: A figure or table: 1, 3, 4, 5, 7, 8, 9, 10, 11, 16, 17, 19, 20, 32, 35, table5, warmup, growth; may
            be repeated; default: all.
        corpus: File or folder whose bytes are the tokens, or synthetic: train.corpus.
        quick: Fewer and shorter runs: what is not in it is reported as not run.
        model: Keys of [model] on top of ``config``; each has to act.
        init: Keys of [init] on top of ``config``; each has to act.
        input: Keys of [input] on top of ``config``; each has to act.
        run: Keys of [run] on top of ``config``; each has to act.
        train: Keys of [train] on top of ``config``; each has to act.
        seed: First random seed.
        seeds: Number of seeds; a verdict needs 4.
        threads: Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it.
        device: cpu, reference, cuda or cuda-tf32.
        dtype: f64, f32, bf16 or f16.
        out: Folder for the result file; an interrupted run goes on from there.
        force: Overwrite a model that is there; try what by the estimate does not fit.
        progress: True shows a bar, or lines in a file; a function is called with every Snapshot.
        check: Raise CheckFailed where the program would end with exit code 4 or 5.
    """
    return run_study(
        "reproduce",
        config,
        sections={"model": model, "init": init, "input": input, "run": run, "train": train},
        flags={"figure": figure, "corpus": corpus, "quick": quick},
        common={
            "seed": seed,
            "seeds": seeds,
            "threads": threads,
            "device": device,
            "dtype": dtype,
            "out": out,
            "force": force,
        },
        progress=progress,
        check=check,
    )
