"""Documents: links, anchors and printed commands; the site checker; and the installed program."""

import re
import shlex
import subprocess
import sys
import zlib
from urllib.parse import unquote

import pytest

from program import BUILD, ROOT, rejected, result, run, sets

IGNORED = re.compile(r"(build|results|\.|docs/(reference|claims).md)")  # not under git
ROOMS = {name: ROOT for name in ("cmake", "docs", "experiments", "notebooks", "plots", "sim", "tests", "theory")}
# Paths in docs/theory omit the folder theory/.
ROOMS |= {path.name: path.parent for path in (ROOT / "theory").iterdir() if path.is_dir()}
SOURCE_FILE = re.compile(rf"`((?:{'|'.join(ROOMS)})/[a-z_0-9/]+\.\w+)`")
FENCE = re.compile(r"^```.*?\n(.*?)^```", re.S | re.M)


def documents():
    return [path for path in sorted(ROOT.rglob("*.md"))
            if not IGNORED.match(str(path.relative_to(ROOT))) and "node_modules" not in path.parts]


def anchors(text):
    """Returns GitHub's anchors of headings: lower case, spaces as -, no other punctuation, repeated ones numbered."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?) *$", FENCE.sub("", text), re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name] > 0:
            found[f"{name}-{found[name]}"] = 0
    return set(found)


def printed_commands(text):
    """Yields the words of every command of the program in code blocks, without prompts and comments."""
    lines = "\n".join(FENCE.findall(text)).replace("\\\n", " ").split("\n")
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True) if "periscope" in line else []
        if words and words[0] in ("periscope", "build/periscope"):
            yield words[1:]


def test_every_link_has_a_target():
    links = 0
    for path in documents():
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            name, _, anchor = unquote(target).partition("#")
            linked = path if not name else path.parent / name
            where = f"{path.relative_to(ROOT)}: {target}"
            assert linked.exists(), where
            assert not anchor or anchor in anchors(linked.read_text()), where
    assert links > 50


def test_documents_name_existing_source_files():
    names = [(path, name) for path in documents() for name in SOURCE_FILE.findall(path.read_text())]
    assert [(path, name) for path, name in names if not (ROOMS[name.split("/")[0]] / name).exists()] == []
    assert len(names) > 100


def test_literature_has_every_cited_paper():
    papers = re.compile(r"\b\d{4}\.\d{5}\b")
    listed = set(papers.findall((ROOT / "docs" / "theory" / "literature.md").read_text()))
    assert len(listed) > 10
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        assert set(papers.findall(path.read_text())) <= listed, path


def test_the_lab_note_has_the_predicted_moments_of_published_shapes():
    """The note's table shows E[x^2] at the top of the stack before training, by sequence length."""
    note = (ROOT / "docs" / "lab_notes" / "first_steps.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in note.split("\n")
            if re.match(r"\| (tokens|\d.*B|\d+M) \|", row)]
    tokens = rows[0][2:-1]
    assert [row[0] for row in rows] == ["tokens", "3.2B", "1.5B", "400M"]
    for preset, _, *pre, peri in rows[1:]:
        for placement, length, printed in (("pre", tokens[0], pre[0]), ("pre", tokens[1], pre[1]),
                                           ("peri", tokens[0], peri)):  # other placements take longer
            ds = result("theory", f"model.preset={preset}", f"model.placement={placement}",
                        "input.second_moment=4e-4", f"input.tokens={length}")
            top = ds.second_moment_predicted.values.ravel()[-1]
            assert top / float(printed) == pytest.approx(1.0, abs=2e-3), (preset, length)


def test_the_printed_reference_has_all_parts():
    printed = run("list", "--reference").out
    for word in ("### periscope propagate", "`--theory-set`", "`model.qk_norm`", "`second_moment_measured`",
                 "75 stopped"):
        assert word in printed


def test_every_printed_command_has_valid_flags_and_keys():
    keys = {key["name"] for key in run("list", "--json").json["keys"]}
    commands = [(path, words) for path in documents() for words in printed_commands(path.read_text())]
    assert len(commands) > 30
    for path, words in commands:
        where = f"{path.relative_to(ROOT)}: {shlex.join(words)}"
        # the parser rejects the first invalid flag, so all flags before this one are valid
        assert "--no-such-flag" in run(words, "--no-such-flag", code=2, cwd=ROOT).err, where
        for flag, value in zip(words, words[1:], strict=False):
            if flag in ("--set", "--theory-set", "--vary"):
                assert value.partition("=")[0] in keys, where
            assert flag != "--config" or (ROOT / value).is_file(), where


STACK = ["--seeds", "2", *sets("model.layers=2", "input.tokens=8")]
NARROW = sets("model.width=32", "model.heads=2", "model.mlp_width=64")
# One wrong theory instead of the shipped list.
LIST = """
[[config]]
name = "small"
file = "experiments/configs/short.toml"
set = ["run.seeds=8", "model.layers=1", "model.width=32", "model.heads=2", "input.tokens=4", "model.placement=pre"]
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
"""
# Flags that make commands quick, by their first words. Other commands run as printed.
SMALLER = {
    "theory": sets("model.layers=1", "input.tokens=4"),
    "propagate": STACK + NARROW,
    "compare": STACK + NARROW,
    "ladder": sets("model.layers=1", "input.tokens=4", "ladder.widths=[16, 24, 32, 48]", "ladder.seeds=16",
                   "model.width=16", "model.heads=2"),
    "power": ["--config", "list.toml"],
    "formats results/olmo2": [],
    "formats": ["--seeds", "4", *sets("model.layers=1", "input.tokens=4", 'formats.format=["bf16", "int8"]'), *NARROW],
    "train": sets("model.layers=2", "input.tokens=8", "train.steps=3", "train.batch=2"),
    "reproduce": sets("model.layers=3", "input.tokens=8", "train.steps=3", "train.batch=2") + NARROW,
    "gradients depth": ["--seeds", "2", *sets("gradients.layers=[1, 2, 4]", "input.tokens=4"), *NARROW],
    "gradients": STACK + NARROW,
    "probe": ["--draws", "2"],
    "verify": ["--starts", "4"],
}


def test_every_printed_command_runs(folder):
    readme, questions = (list(printed_commands((ROOT / name).read_text()))
                         for name in ("README.md", "docs/questions.md"))
    assert len(readme) >= 6
    assert len(questions) >= 25
    for thing in ("README.md", "experiments"):
        (folder / thing).symlink_to(ROOT / thing)
    (folder / "list.toml").write_text(LIST)
    for words in readme + questions:
        key = next((k for k in SMALLER if words[:len(k.split())] == k.split()), None)
        if "--cases" in words:
            words[words.index("--cases") + 1] = "100"
        run(words, SMALLER.get(key, []))
        assert "--out" not in words or any((folder / words[words.index("--out") + 1]).iterdir()), words


GOOD = ('<link rel="stylesheet" href="a.css"><img src="_images/a.png" alt="Variance over depth">'
        '<a href="https://x.org/">x</a>')
BAD_FIGURES = ('<img src="b.png" alt=" ">', '<img src="../_images/b.png" alt="experiments/figures/b.png">')
REMOTE = ('<script src="https://x.org/a.js"></script>', '<link rel="stylesheet" href="//x.org/a.css">',
          '<p style="background: url(http://x.org/a.png)">', '<iframe src="https://x.org"></iframe>')


@pytest.mark.parametrize(("page", "objects", "style", "code", "names"), [
    (GOOD, ["periscope.open"], "", 0, []),
    (GOOD + '<link rel="canonical" href="https://x.org/">', [], "", 0, []),
    *((GOOD + figure, [], "", 1, ["b.png"]) for figure in BAD_FIGURES),
    *((GOOD + part, [], "", 1, ["x.org"]) for part in REMOTE),
    (GOOD, [], "p { background: url(//x.org/a.woff2) }", 1, ["a.css"]),
    (GOOD, ["periscope.open", "periscope.plot", "a-heading"], "", 1, ["a-heading", "periscope.plot"]),
    ("<p>x</p>", [], "", 1, [""]),
])
def test_check_site_reports_faults_of_a_page(page, objects, style, code, names, folder):
    (folder / "README.html").write_text(page)
    (folder / "a.css").write_text(style or "p { color: red }")
    header = b"# Sphinx inventory version 2\n# Project: x\n# Version: 1\n# zlib\n"
    listed = b"periscope.open py:function 1 README.html#$ -\na-heading std:label -1 README.html#x X\n"
    (folder / "objects.inv").write_bytes(header + zlib.compress(listed))
    done = subprocess.run([sys.executable, ROOT / "docs" / "check_site.py", folder, *objects],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    lines = done.stdout.splitlines()
    assert code == 0 or (len(lines) == len(names) and all(n in line for n, line in zip(names, lines, strict=True)))


@pytest.fixture
def prefix(folder):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "first"], check=True, stdout=subprocess.DEVNULL)
    return (folder / "first").rename(folder / "moved")


def test_a_moved_installation_finds_its_configurations(prefix):
    shipped, program = prefix / "share" / "periscope" / "configs", prefix / "bin" / "periscope"
    assert {path.name for path in shipped.iterdir()} == {p.name for p in (ROOT / "experiments" / "configs").iterdir()}
    (shipped / "power.toml").write_text("nonsense = 1\n")
    rejected("power", program=program, names=shipped / "power.toml")
    (shipped / "power.toml").unlink()
    rejected("power", program=program, names=["--config", "power.toml"])


def test_completion_lists_commands_and_flags(prefix):
    script = next(prefix.glob("share/bash-completion/completions/periscope"))
    for *words, expected in (("prop", "propagate"), ("gradients", "sc", "score-path"), ("propagate", "depth", "--confi",
                             "--config"), ("gradients", "depth", "--skip", "--skip-finished")):
        body = (f"source {script}; COMP_WORDS=(periscope {' '.join(words)}); COMP_CWORD={len(words)}; _periscope; "
                "printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", body], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{expected}\n", "")


def test_all_files_state_the_same_version():
    version = re.search(r"project\(periscope VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    newest = re.search(r"^## \[(\S+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert {version} == {citation, newest, run("--version").out.split()[1]}


def test_cite_prints_authors_and_studies():
    alone = run("cite").out
    assert alone.count("\n@") + 1 == 2
    for family, given in re.findall(r"family-names: (.*)\n +given-names: (.*)", (ROOT / "CITATION.cff").read_text()):
        assert f"{family}, {given}" in alone
