"""The ledger: claims are judged from the results of their runs, and only from these."""

import json
import re
import shutil
import tomllib

import pytest

from program import ROOT, rejected, run

CLAIMS = """
regimes = [0.2, 0.88]
[[run]]
name = "signals"
study = "propagate"
settings = ["model.placement=[\\"pre\\", \\"peri\\"]", "model.layers=2", "model.width=32", "model.heads=2",
            "input.tokens=6", "run.seeds=6"]
quick = ["run.seeds=4"]
[[claim]]
id = "F3"
source = "Eq. 4"
statement = "Peri-LN grows by 1 per sublayer."
run = "signals"
kind = "slope"
read = "(second_moment_per_seed[placement=peri, depth=4] - second_moment_per_seed[placement=peri, depth=0]) / 4"
expected = EXPECTED
threshold = 0.5
derivation = "loose, as the stack is narrow"
[[claim]]
id = "F6"
source = "review"
statement = "A number."
kind = "fact"
read = "sqrt(8 / 3) + 1"
expected = 2.35
threshold = 0.01
derivation = "two decimals"
[[claim]]
id = "G5"
source = "review"
statement = "A proof proves something."
kind = "not-testable-here"
reason = "a statement about a proof"
"""


@pytest.fixture(autouse=True)
def claims(folder):
    (folder / "claims.toml").write_text(CLAIMS.replace("EXPECTED", "1.0"))
    return folder / "claims.toml"


def ledger(*words, code=0):
    done = run("ledger", words, "--claims", "claims.toml", "--out", "out", code=code)
    with open("out/ledger.json", encoding="utf-8") as file:
        written = json.load(file)
    assert "--json" not in words or json.loads(done.out) == written
    return {claim["id"]: claim["results"] for claim in written["claims"]}


def verdicts(found):
    return {name: [result["verdict"] for result in results] for name, results in found.items()}


def test_claims_are_judged_from_cells(claims):
    missing = ledger("report", "--quiet", code=75)
    assert verdicts(missing) == {"F3": ["not-run"] * 2, "F6": ["fails"], "G5": ["not-testable-here"]}
    done = ledger("run", "--json", "--quiet")
    assert verdicts(done) == {"F3": ["holds"] * 2, "F6": ["fails"], "G5": ["not-testable-here"]}
    assert [result["regime"] for result in done["F3"]] == [0.2, 0.88]
    first = done["F3"][0]
    assert len(first["values"]) == 6 and len(first["cell"]) == len(first["sha256"]) == 64
    assert (claims.parent / "out" / first["file"]).is_file() and first["sha256"] != done["F3"][1]["sha256"]
    low, high = first["interval"]
    assert low < first["value"] < high and 0 < first["p"] < first["holm"] < 1
    assert ledger("report") == done
    # Other numbers are claimed: the verdict follows, without another run.
    claims.write_text(CLAIMS.replace("EXPECTED", "3.0"))
    assert verdicts(ledger("report"))["F3"] == ["fails"] * 2


def test_stored_results_stand_for_missing_runs(claims):
    done = ledger("run", "--quiet")
    (claims.parent / "out" / "ledger.json").rename("stored.json")
    shutil.rmtree(claims.parent / "out")
    assert ledger("run", "--quiet", "--stored", "stored.json") == done  # in 0 runs
    assert not (claims.parent / "out" / "signals").exists()
    assert verdicts(ledger("report", "--quick", "--stored", "stored.json", code=75))["F3"] == ["not-run"] * 2
    for other in (CLAIMS.replace("EXPECTED", "1.1"), CLAIMS.replace('kind = "slope"', 'kind = "alike"')):
        claims.write_text(other.replace("EXPECTED", "1.0"))
        assert verdicts(ledger("report", "--stored", "stored.json", code=75))["F3"] == ["not-run"] * 2
    report = "ledger report --claims claims.toml --out out --stored".split()
    rejected(report, "out/ledger.json", names=["out/ledger.json"])
    text = (claims.parent / "stored.json").read_text()
    for broken in ("{}", '{"claims": [{}]}', "[", text.replace('"F6"', '"F3"'), re.sub('"p": 0.*', '"p": 1.5,', text)):
        (claims.parent / "stored.json").write_text(broken)
        rejected(report, "stored.json", code=3, names=["stored.json"])


def test_an_undecided_verdict_has_the_reason_of_the_study(claims):
    own = 'run = "signals"\nkind = "law"\nverdict = "verdict[placement=pre]"'
    start = CLAIMS.index("run =", CLAIMS.index("[[claim]]"))
    claims.write_text(CLAIMS[:start] + own + CLAIMS[CLAIMS.index("\n[[claim]]", start):])
    for result in ledger("run", "--quiet")["F3"]:
        assert result["verdict"] == "not-shown"
        assert "detectable error" in result["reason"]


def test_profiles_shards_and_selected_claims():
    others = {"F3": ["not-run"] * 2, "G5": ["not-testable-here"]}
    assert verdicts(ledger("run", "--quick", "--claim", "F6")) == {"F6": ["fails"], **others}
    run("ledger run --claims claims.toml --out out --quick --shard 2/2".split())
    assert [result["verdict"] for result in ledger("report", "--quick", code=75)["F3"]] == ["not-run", "holds"]
    quick = ledger("run", "--quick", "--threads", "1")
    assert len(quick["F3"][0]["values"]) == 4
    assert run("ledger list --claims claims.toml --claim F3".split()).out.count("F3") == 1


@pytest.mark.parametrize(("old", "new", "named"), [
    ('kind = "slope"', 'kind = "steep"', "kind"), ('run = "signals"', 'run = "signal"', "run"),
    ("threshold = 0.5\n", "", "threshold"), ("expected = 1.0\n", "", "expected"),
    ('"model.width=32", ', "", "model.width"), ('id = "F6"', 'id = "F3"', "F3"), ("regimes", "regime", "regime"),
    ('source = "Eq. 4"', "", "source"), ('"Eq. 4"', r'"\u001b"', "source"), ('"run.seeds=4"', '"init.std=1"', "std"),
    ("[0.2, 0.88]", "[0.88, 0.2]", "regimes"), ("[0.2, 0.88]", "[]", "regimes"), ("0.88]", "inf]", "regimes"),
    ("threshold = 0.5", "threshold = -0.5", "threshold"), ("threshold = 0.5", "threshold = nan", "threshold"),
    ('"model.width=32"', '"model.width=[8, 16]"', "model.width"), ('name = "signals"', 'name = "../x"', "name"),
    ('"run.seeds=6"', '"init.std=0.1"', "init.std"), ("run.seeds=6", "run.seed=x", "run.seed"),
    ('study = "propagate"', 'study = "propagat"', "propagate")])  # fmt: skip
def test_wrong_claims_are_rejected(claims, old, new, named):
    claims.write_text(CLAIMS.replace("EXPECTED", "1.0").replace(old, new, 1))
    rejected("ledger run --quiet --claims claims.toml --out out".split(), names=[named])


def test_a_reading_error_names_the_claim(claims):
    claims.write_text(CLAIMS.replace("EXPECTED", "1.0").replace("depth=4]", "depth=9]"))
    done = run("ledger run --claims claims.toml --out out".split(), code=1)
    assert "periscope: claim F3: " in done.err and "depth = 9" in done.err
    assert verdicts(ledger("report", code=1)) == {"F3": ["not-run"] * 2, "F6": ["fails"], "G5": ["not-testable-here"]}


def test_shards_divide_the_cells_of_all_runs(claims):
    text = CLAIMS.replace("EXPECTED", "1.0")
    again = text[text.index("[[run]]"):text.index("[[claim]]")].replace('"signals"', '"again"')
    text = text.replace("[[claim]]", again + "[[claim]]", 1).replace("sqrt(8 / 3) + 1", "diverged_seeds[placement=pre]")
    claims.write_text(text.replace('kind = "fact"', 'run = "again"\nkind = "fact"'))
    for k in (4, 2, 3):
        run(f"ledger run --claims claims.toml --out out --quick --shard {k}/4".split())
    cells = {name: len(list((claims.parent / "out" / name / "cells").glob("*/*"))) for name in ("signals", "again")}
    assert cells == {"signals": 1, "again": 2}


def test_a_failed_run_is_reported(claims):
    claims.write_text(CLAIMS.replace("EXPECTED", "1.0").replace('"input.tokens=6"', '"input.tokens=6", "run.memory=1"'))
    rejected("ledger run --quiet --claims claims.toml --out out".split(), names=["run.memory"])


@pytest.mark.parametrize("profile", ["", "--quick"])
def test_every_shipped_run_can_be_planned(profile):
    run(f"ledger run {profile} --out out --quiet --shard 99/99".split())  # plans all cells and computes none


def test_a_claim_outside_of_the_profile_is_rejected(claims):
    claims.write_text(claims.read_text().replace('study = "propagate"', 'study = "propagate"\nfull_only = true'))
    assert verdicts(ledger("report", "--quick"))["F3"] == ["not-run"]
    rejected("ledger run --quiet --claims claims.toml --out out --quick --claim F3".split(), names=["F3", "--quick"])


def test_shipped_claims_have_sources_and_unique_ids():
    rows = tomllib.loads((ROOT / "experiments" / "configs" / "claims.toml").read_text())["claim"]
    listed = run("ledger list --json --quiet".split()).json
    assert [row["id"] for row in listed] == [row["id"] for row in rows]
    rejected("ledger", "list", "--claim", "F33", names=["nearest is F3"])
