"""The report of a ledger: every verdict and number follows ledger.json, in PDF and HTML."""

import html
import json
import re
import subprocess
import sys

import pypdfium2
import pytest

from program import ROOT

RESULT = {"regime": 0.2, "verdict": "holds", "value": 1.234, "error": 0.0567, "interval": [1.12, 1.35],
          "detectable": 0.21, "p": 0.0123, "holm": 0.0345, "values": [1.2, 1.3], "quantity": "", "reason": "",
          "cell": "0" * 64, "file": "signals/cells/0", "sha256": "0" * 64}
VERDICTS = {"holds": "holds", "holds-with-condition": "holds with a condition", "fails": "fails",
            "not-shown": "not shown", "not-testable-here": "not testable here", "not-run": "not run"}


def claim(name, verdicts, kind="slope", **keys):
    results = [{**RESULT, "regime": regime, "verdict": verdict}
               for regime, verdict in zip((0.2, 0.88), verdicts, strict=False)]
    return {"id": name, "source": "a source", "statement": f"Statement of {name}.", "formula": "", "theory": "T12",
            "kind": kind, "run": "signals", "read": "x[placement=pre]", "expected": 1.0, "threshold": 0.25,
            "derivation": "derived", "reason": "", "results": results, **keys}


def planted(first, second):
    ledger = {"version": "0.1.0", "commit": "abc", "profile": "quick", "regimes": [0.2, 0.88],
              "runs": [{"name": "signals", "study": "propagate", "flags": [], "settings": ["model.layers=2"]}],
              "claims": [claim("F2", [first, second]), claim("G8", [second, first], "law", derivation=""),
                         claim("R1", [first], derivation=""), claim("C9", ["not-testable-here"], "not-testable-here")]}
    for one in (ledger["claims"][2], ledger["claims"][3]):
        one["results"][0]["regime"] = None
    return ledger


def texts(ledger, folder):
    """Returns the text of the PDF and of the HTML page, without hyphenation and with single spaces."""
    (folder / "ledger.json").write_text(json.dumps(ledger))
    (folder / "figures").mkdir(exist_ok=True)
    subprocess.run([sys.executable, ROOT / "docs" / "report" / "report.py", folder / "ledger.json", "--out", folder,
                    "--figures", folder / "figures", "--page", folder / "page.md"],
                   check=True, capture_output=True)  # fmt: skip
    pages = pypdfium2.PdfDocument(folder / "report.pdf")
    printed = " ".join(page.get_textpage().get_text_range() for page in pages)
    page = re.sub(r"<style>.*?</style>", "", (folder / "report.html").read_text(), flags=re.S)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", page))
    return [re.sub(r"\s+", " ", text) for text in (printed, shown)]


def counts(text):
    overview = re.search(r"square root of the width: (.*?)\. ", text)[1]
    return {word: int(re.search(rf"(\d+) {word}(,| and|$)", overview)[1]) for word in VERDICTS.values()}


@pytest.mark.parametrize(("first", "second"), [("holds", "fails"), ("fails", "not-shown"), ("not-run", "holds"),
                                               ("holds-with-condition", "holds-with-condition")])
def test_every_sentence_follows_the_ledger(folder, first, second):
    ledger = planted(first, second)
    expected = dict.fromkeys(VERDICTS.values(), 0)
    for one in ledger["claims"]:
        for result in one["results"]:
            expected[VERDICTS[result["verdict"]]] += 1
    for text in texts(ledger, folder):
        assert counts(text) == expected
        found = {word: len(re.findall(rf"(?<!\w){word}(?! with)(?!\w)", text.split("Overview")[-1].split("Methods")[0]))
                 for word in (VERDICTS[first], VERDICTS[second])}
        for word, count in found.items():
            assert count == 2 * expected[word], (word, text)  # in the overview, and at the claim
        for name in ("F2", "G8", "R1", "C9"):
            assert f"Statement of {name}." in text


def test_numbers_are_those_of_the_ledger(folder):
    ledger = planted("holds", "fails")
    ledger["claims"][0]["results"][0] |= {"value": -0.00412, "error": 0.00031, "p": 2.5e-7, "interval": [None, None]}
    for text in texts(ledger, folder):
        assert "1.23 ± 0.057" in text and "1.12 to 1.35" in text and "0.012" in text and "0.035" in text
        assert "−0.00412 ± 0.00031" in text
        assert re.search(r"2\.5 · 10 ?−7", text), text
        assert "model.layers=2" in text and re.search(r"commit +abc", text)


def test_the_report_is_reproducible(folder):
    texts(planted("holds", "fails"), folder)
    first = [(folder / f"report.{kind}").read_bytes() for kind in ("pdf", "html")]
    texts(planted("holds", "fails"), folder)
    assert first == [(folder / f"report.{kind}").read_bytes() for kind in ("pdf", "html")]


def test_remarks_and_figures(folder):
    ledger = planted("holds", "not-shown")
    ledger["claims"][0]["results"][1]["reason"] = "too few seeds"
    ledger["claims"][1]["results"][0]["reason"] = ledger["claims"][1]["results"][1]["reason"] = "narrow"
    ledger["runs"][0]["settings"].append("model.width=100")
    (folder / "figures" / "signals").mkdir(parents=True)
    figure = folder / "figures" / "signals" / "sweep-variance.svg"
    figure.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0H9"/></svg>')
    figure.with_suffix(".txt").write_text("The stream. Curves differ\nin init.std: see the legend.")
    for text in texts(ledger, folder):
        assert "Reason at 0.88: too few seeds." in text and text.count("narrow.") == text.count("Reason:") == 1
        assert re.search(r"Figure 1: The stream\. Curves .* 0\.02 \(σ√D = 0\.2\), 0\.088 \(σ√D = 0\.88\)\.", text)
    page = (folder / "page.md").read_text()
    assert page.startswith("# Claims\n") and "Statement of F2." in page and "<img" in page


@pytest.mark.parametrize("change", [{"regimes": [0.88, 0.2]}, {"regimes": [0.2, 0.5, 0.88]}])
def test_verdicts_stand_below_their_regime(folder, change):
    ledger = planted("holds", "fails")
    ledger["claims"] = [claim("Z1", ["holds", "fails"])]
    for text in texts(ledger | change, folder):
        cells = {"0.2": "holds", "0.88": "fails"}
        expected = " ".join(cells.get(f"{regime:g}", "–") for regime in change["regimes"])
        assert f"Statement of Z1. {expected} " in text


@pytest.mark.parametrize("text", ["", "[]", '{"claims": []}'])
def test_other_files_are_rejected(folder, text):
    (folder / "ledger.json").write_text(text)
    words = [sys.executable, ROOT / "docs" / "report" / "report.py", folder / "ledger.json", "--out", folder]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("report.py: ") and done.stderr.count("\n") == 1
