"""Small runs of every study, as the module and the program take them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent / "checkpoint" / "fixtures"
SMALL = {"model.layers": 2, "model.width": 16, "model.heads": 2, "model.vocab": 40, "input.tokens": 6,
         "model.mlp_width": 24, "init.scheme": "lecun"}  # fmt: skip

# study: (keys besides SMALL, flags, whether SMALL's keys are for it)
EVERY: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "propagate": ({"model.placement": ["pre", "peri"]}, {"backward": True}, True),
    "theory": ({}, {"backward": True}, True),
    "ladder": ({"ladder.widths": [16, 32, 48, 64], "ladder.seeds": 8}, {}, True),
    "gradients depth": ({"gradients.layers": [2, 3, 4]}, {}, True),
    "gradients attenuation": ({}, {}, True),
    "gradients identity-path": ({}, {}, True),
    "gradients score-path": ({}, {}, True),
    "gradients crossover": ({"model.placement": ["post", "pre", "peri"]}, {}, True),
    "power": ({}, {}, True),
    "formats": ({"formats.format": ["bf16"], "theory.replicates": 8}, {}, True),
    "verify": ({}, {"cases": 60}, False),
    "certify": ({"input.kind": "tokens"}, {}, True),
    "probe": ({}, {"checkpoint": str(FIXTURES / "llama"), "tokens": [1, 2, 3], "draws": 2, "backward": True}, False),
    "train": ({"train.steps": 4, "train.batch": 2, "model.placement": ["pre", "peri"]}, {"corpus": "synthetic"}, True),
    "first-steps": ({"train.steps": 2, "train.batch": 2, "model.placement": ["pre", "peri"], "first_steps.neurons": 16},
                    {"corpus": "synthetic"}, True),
    "reproduce": ({"train.steps": 10}, {"quick": True, "figure": "4", "corpus": "synthetic"}, True),
}  # fmt: skip
WITHOUT_SEEDS = ("ladder", "verify", "certify", "probe", "theory")


def verb_of(study: str) -> str:
    return study.replace(" ", "_").replace("-", "_")


def keys_of(study: str) -> dict[str, Any]:
    own, _, small = EVERY[study]
    return {**(SMALL if small else {}), **own}


def power_list(folder: Path) -> Path:
    """A list of wrong theories for `power`."""
    (folder / "small.toml").write_text("")
    path = folder / "list.toml"
    path.write_text('[[config]]\nname = "small"\nfile = "small.toml"\n'
                    '[[theory]]\nname = "strong W_down"\nset = ["init.down_factor=4"]\nconfig = "small"\n')  # fmt: skip
    return path


def toml(value: Any) -> str:
    from periscope import _toml

    return _toml.text("key", value)


def run_program(program: str, study: str, *words: str, out: Path, seeds: int = 4) -> None:
    """Runs a study of EVERY with the program; its file is in `out`."""
    _, flags, _ = EVERY[study]
    command = [program, *study.split(), "--out", str(out), "--quiet", *words]
    for key, value in keys_of(study).items():
        command += ["--set", f"{key}={toml(value)}"]
    if study not in WITHOUT_SEEDS:
        command += ["--seeds", str(seeds)]
    for flag, value in flags.items():
        if flag == "checkpoint":
            command.append(value)
        elif value is True:
            command.append(f"--{flag}")
        else:
            command += [f"--{flag}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 4):
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")


def run_module(study: str, seeds: int = 4, **words: Any) -> Any:
    """The same with the module."""
    import periscope as ps

    _, flags, _ = EVERY[study]
    config = words.pop("config", None)
    if study not in WITHOUT_SEEDS:
        words["seeds"] = seeds
    sections: dict[str, dict[str, Any]] = {}
    for key, value in keys_of(study).items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    return getattr(ps, verb_of(study))(config=config, **sections, **flags, **words)


@contextlib.contextmanager
def rejected(words: str, kind: type[BaseException] | None = None, key: str | None = None) -> Iterator[None]:
    """Expects an error (InputError, or ConfigError with this key) whose message has these words."""
    from periscope import errors

    expected = kind or (errors.InputError if key is None else errors.ConfigError)
    try:
        yield
    except expected as error:
        assert words in str(error), error
        assert key is None or getattr(error, "key", None) == key, error
        return
    raise AssertionError(f"expected {expected.__name__}: {words}")


def python(code: str, *, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **environment})  # fmt: skip
