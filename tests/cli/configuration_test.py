"""What every key of a configuration changes: numbers that are measured, predicted or judged, and the hash."""

import json
import re
import shutil

import pytest

from key_rows import HOW, ROWS
from program import CONFIG, FIXTURES, SMALL, differing, fact, result, run, stack_of

KINDS_OF_NUMBERS = {"predicted": r"predicted|^theory_|^finite_width$",
                    "judged": r"verdict|reason|worst|rejected|power|^contrast|_z$|_allowance$|_excess$",
                    "measured": r"_measured$|_stderr$|_per_seed$|^diverged|top_magnitudes$"}
DONE = {}  # results by command and settings


def kind_of(column):
    return next((kind for kind, names in KINDS_OF_NUMBERS.items() if re.search(names, column)), None)


def of(command, settings):
    if (command, settings) not in DONE:
        words = command.split(), CONFIG, "--quiet", "model.placement=peri", settings
        DONE[command, settings] = result(*words, code=(0, 4))
    return DONE[command, settings]


def test_a_row_per_key():
    assert set(ROWS) == {key["name"] for key in run("list", "--json").json["keys"]}


@pytest.mark.parametrize("key", ROWS)
def test_every_key_is_obeyed(key, folder):
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


@pytest.mark.parametrize("key", [key for key, row in ROWS.items() if row.command == "propagate" and key not in HOW
                                 and key not in ("model.preset", "model.layer_placement", "input.path")])
def test_the_resolved_configuration_has_its_value(key):
    """But for tables, which JSON and TOML write differently."""
    row, (section, name) = ROWS[key], key.rsplit(".", 1)
    found = of(row.command, (*row.base, f"{key}={row.value}"))
    values = stack_of(found) if section in ("model", "init", "input") else fact(found)
    for part in (*section.split("."), name):
        values = values[part]
    shown = values if isinstance(values, str) else json.dumps(values)
    assert shown == row.value or float(shown) == float(row.value)


def hash_of(*words, command="theory"):
    return result(command, CONFIG, words).attrs["config_sha256"]


def test_what_changes_no_result_does_not_change_the_hash(folder):
    plain = hash_of()
    assert {hash_of(*words) for words in (["run.threads=1"], ["run.out=out"], ["--threads", "2"])} == {plain}
    for text in (SMALL + "[ladder]\nwidths = [1, 2]\n",  # a section of other commands, a key of other inputs
                 SMALL.replace("[input]\n", '[input]\npath = "nowhere"\n')):
        (folder / "small.toml").write_text(text)
        assert hash_of() == plain


def test_a_text_counts_by_its_content(folder):
    def of_text(name, text):
        (folder / name).write_text(text)
        return hash_of("input.kind=text", f"input.path={name}")

    assert of_text("a", "abcdefgh") == of_text("b", "abcdefgh") != of_text("b", "abcdefgx")


@pytest.mark.parametrize("command", [("probe", "--no-theory"), ("certify",)])
def test_a_checkpoint_counts_by_its_content(command, folder):
    def of_model(name):
        return result(*command, name, "--tokens", "1,2,3").attrs["config_sha256"]

    for name in ("a", "b"):
        shutil.copytree(FIXTURES / "gemma2", name)
    assert of_model("a") == of_model("b")
    weights = folder / "b" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # the sign, or a digit, of one weight
    weights.write_bytes(content)
    assert of_model("a") != of_model("b")
