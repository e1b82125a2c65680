"""Effects of every configuration key on measured, predicted and judged numbers, and on the hash."""

import functools
import re
import shutil

import pytest

from key_rows import HOW, ROWS
from program import CONFIG, FIXTURES, SMALL, differing, result, run

KINDS = {"predicted": r"predicted|^theory_|^finite_width$",
                    "judged": r"verdict|reason|worst|rejected|power|^contrast|_z$|_allowance$|_excess$",
                    "measured": r"_measured$|_stderr$|_per_seed$|^diverged|top_magnitudes$"}


def kind_of(column):
    return next((kind for kind, names in KINDS.items() if re.search(names, column)), None)


@functools.cache
def of(command, settings):
    return result(command.split(), CONFIG, "--quiet", "model.placement=peri", settings, code=(0, 4))


def test_every_key_has_a_row():
    assert set(ROWS) == {key["name"] for key in run("list", "--json").json["keys"]}


@pytest.mark.parametrize("key", ROWS)
def test_every_key_has_its_effect(key, folder):
    row = ROWS[key]
    for name, text in (("some.txt", 32 * "abcdefgh"), ("other.txt", 32 * "hgfedcba")):
        (folder / name).write_text(text)
    before, after = of(row.command, row.base), of(row.command, (*row.base, f"{key}={row.value}"))
    changed = differing(before, after)
    hashes = [ds.attrs["config_sha256"] for ds in (before, after)]
    assert (hashes[0] == hashes[1]) == (key in HOW)
    if row.changes == "all":
        assert changed
        return
    changed = {kind_of(column) for column in changed} - {None}
    order = ["measured", "predicted", "judged"]
    first = order.index(row.changes) if row.changes in order else len(order)
    assert not changed & set(order[:first]) and changed >= set(order[first:first + 1])


def hash_of(*words, command="theory"):
    return result(command, CONFIG, words).attrs["config_sha256"]


def test_settings_without_effect_do_not_change_the_hash(folder):
    plain = hash_of()
    assert {hash_of(*words) for words in (["run.threads=1"], ["run.out=out"], ["--threads", "2"])} == {plain}
    for text in (SMALL + "[ladder]\nwidths = [1, 2]\n",  # a section of another command, a key of another input
                 SMALL.replace("[input]\n", '[input]\npath = "nowhere"\n')):
        (folder / "small.toml").write_text(text)
        assert hash_of() == plain


def test_the_hash_depends_on_the_content_of_a_text(folder):
    def of_text(name, text):
        (folder / name).write_text(text)
        return hash_of("input.kind=text", f"input.path={name}")

    assert of_text("a", "abcdefgh") == of_text("b", "abcdefgh") != of_text("b", "abcdefgx")


@pytest.mark.parametrize("command", [("probe", "--no-theory"), ("certify",)])
def test_the_hash_depends_on_the_content_of_a_checkpoint(command, folder):
    def of_model(name):
        return result(*command, name, "--tokens", "1,2,3").attrs["config_sha256"]

    for name in ("a", "b"):
        shutil.copytree(FIXTURES / "gemma2", name)
    assert of_model("a") == of_model("b")
    weights = folder / "b" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert of_model("a") != of_model("b")
