"""The Markdown files: links and their anchors exist, the program prints the reference, and
takes every command that is printed in a code block. Usage: documents.py BINARY SOURCE_DIR"""

import json
import pathlib
import re
import shlex
import sys
import unittest
from urllib.parse import unquote

from periscope_process import Result, run

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
IGNORED = re.compile(r"(build|results|\.|docs/reference.md)")  # by git
ROOMS = {name: SOURCE for name in ("cmake", "docs", "experiments", "notebooks", "plots", "sim", "tests", "theory")}
ROOMS |= {path.name: path.parent for path in (SOURCE / "theory").iterdir() if path.is_dir()}  # as docs/theory has them
SOURCE_FILE = re.compile(rf"`((?:{'|'.join(ROOMS)})/[a-z_0-9/]+\.\w+)`")
FENCE = re.compile(r"^```.*?\n(.*?)^```", re.S | re.M)


def documents():
    return [path for path in sorted(SOURCE.rglob("*.md"))
            if not IGNORED.match(str(path.relative_to(SOURCE))) and "node_modules" not in path.parts]


def anchors(text):
    """What GitHub makes of headings: lower case, spaces as -, no other punctuation, a number behind repeated ones."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?) *$", FENCE.sub("", text), re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name] > 0:
            found[f"{name}-{found[name]}"] = 0
    return set(found)


def printed_commands(text):
    """The words of every command of the program in a code block, continued lines joined, prompts and comments cut."""
    lines = "\n".join(FENCE.findall(text)).replace("\\\n", " ").split("\n")
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True) if "periscope" in line else []
        if words and words[0] in ("periscope", "build/periscope"):
            yield words[1:]


class Documents(unittest.TestCase):
    def test_headings_are_headings(self):
        """A line in bold has no anchor, and no entry in the contents of its page."""
        for path in documents():
            self.assertEqual(re.findall(r"^\*\*[^*]+\*\*$", FENCE.sub("", path.read_text()), re.M), [], path)

    def test_every_link_leads_somewhere(self):
        links = 0
        for path in documents():
            text = path.read_text()
            for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
                if re.match(r"[a-z]+:", target):
                    continue
                links += 1
                name, _, anchor = unquote(target).partition("#")
                there = path if not name else path.parent / name
                where = f"{path.relative_to(SOURCE)}: {target}"
                self.assertTrue(there.exists(), f"{where}: no such file")
                if anchor:
                    self.assertIn(anchor, anchors(there.read_text()), where)
        self.assertGreater(links, 50)

    def test_no_document_names_a_file_that_is_gone(self):
        names = 0
        for path in documents():
            for name in SOURCE_FILE.findall(path.read_text()):
                names += 1
                base = ROOMS[name.split("/")[0]]
                self.assertTrue((base / name).exists(), f"{path.relative_to(SOURCE)}: {name}")
        self.assertGreater(names, 100)

    def test_literature_has_every_cited_paper(self):
        papers = re.compile(r"\b\d{4}\.\d{5}\b")
        listed = set(papers.findall((SOURCE / "docs" / "theory" / "literature.md").read_text()))
        self.assertGreater(len(listed), 10)
        for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]:
            self.assertLessEqual(set(papers.findall(path.read_text())), listed, path)

    def test_variance_of_the_papers_shapes_is_what_theory_says(self):
        """Table of the lab note: Pre-LN's E[x^2] at the top before training depends on the sequence length."""
        note = (SOURCE / "docs" / "lab_notes" / "first_steps.md").read_text()
        rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in note.split("\n")
                if re.match(r"\| (tokens|\d.*B|\d+M) \|", row)]
        tokens = rows[0][2:-1]
        self.assertEqual([row[0] for row in rows], ["tokens", "3.2B", "1.5B", "400M"])
        for preset, _, *pre, peri in rows[1:]:
            for placement, length, printed in (("pre", tokens[0], pre[0]), ("pre", tokens[1], pre[1]),
                                               ("peri", tokens[0], peri)):  # the others take longer
                done = run("theory", "--json", "--quiet", "--set", f"model.preset={preset}", "--set",
                           f"model.placement={placement}", "--set", "input.second_moment=4e-4", "--set",
                           f"input.tokens={length}")
                top = Result(json.loads(done.stdout)).stacks()[0]["second_moment_predicted"][-1]
                self.assertAlmostEqual(top / float(printed), 1.0, delta=2e-3, msg=f"{preset}, {length} tokens")

    def test_the_program_prints_the_reference(self):
        printed = run("list", "--reference")
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        for word in ("### periscope propagate", "`--theory-set`", "`model.qk_norm`", "`second_moment_measured`",
                     "75 stopped"):
            self.assertIn(word, printed.stdout)

    def test_program_takes_every_printed_command(self):
        keys = {key["name"] for key in json.loads(run("list", "--json").stdout)["keys"]}
        commands = 0
        for path in documents():
            for words in printed_commands(path.read_text()):
                commands += 1
                where = f"{path.relative_to(SOURCE)}: {shlex.join(words)}"
                # all that precedes a word that nobody expects is then expected
                done = run(*words, "--no-such-flag", cwd=SOURCE)
                self.assertEqual(done.returncode, 2, where)
                self.assertIn("--no-such-flag", done.stderr, where)
                for place, flag in enumerate(words[:-1]):
                    value = words[place + 1]
                    if flag in ("--set", "--theory-set", "--vary"):
                        self.assertIn(value.partition("=")[0], keys, where)
                    if flag == "--config":
                        self.assertTrue((SOURCE / value).is_file(), where)
        self.assertGreater(commands, 30)


if __name__ == "__main__":
    unittest.main()
