"""Every study once, small: exit code, output, files, threads, flags. Usage: every_command.py BINARY"""

import json
import pathlib
import re
import unittest

from periscope_process import SMALL, STUDIES, SWEEPS, FolderTest, run, run_json

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
# Of the flags that change numbers, which do nothing in a study.
FIXED = {"ladder": ["--seeds"], "theory": ["--seeds", "--dtype"], "formats": ["--dtype"],
         "certify": ["--seeds"], "probe": ["--seeds"]}  # fmt: skip


class EveryCommand(FolderTest):
    STACK = SMALL + SWEEPS

    def result(self, name, *flags):
        """The numbers that a study prints, and the finished process."""
        done = run(*STUDIES[name], *flags, "--json", cwd=self.folder)
        self.assertIn(done.returncode, (0, 4), done.stderr)  # so small a run may be rejected
        return json.loads(done.stdout)["data_vars"], done

    def test_streams_files_and_threads(self):
        listed = {e["name"] for e in run_json("list")[0]["experiments"]} - {"toy", "info", "generate"}
        self.assertEqual(set(STUDIES), listed, "a row per study")
        for name in STUDIES:
            with self.subTest(name):
                out = self.folder / name
                values, told = self.result(name, "--threads", 1, "--out", out)
                self.assertEqual([path.suffix for path in out.iterdir() if path.name != "cache"].count(".nc"), 1)
                self.assertEqual([line for line in told.stderr.splitlines() if len(line) > 100], [])
                self.assertNotIn("\x1b", told.stderr, "no colours away from a terminal")
                others, quiet = self.result(name, "--threads", 3, "--quiet")
                self.assertEqual((quiet.returncode, quiet.stderr), (told.returncode, ""))
                self.assertTrue(others == values, "the same bits for any number of threads")
                table = run(*STUDIES[name], cwd=self.folder)
                self.assertEqual((table.returncode, table.stdout), (told.returncode, ""))
                self.assertRegex(table.stderr, r"(?m)^[a-z-]+: (\d+)/\1\b|\n.*\n.*\n")

    def test_a_finished_run_is_skipped(self):
        for name in STUDIES:
            if name in ("theory", "certify", "probe", "verify"):  # which have no such flag, or see finished_run.py
                continue
            with self.subTest(name):
                words = [*STUDIES[name], "--out", self.folder / name]
                first, again = run(*words, cwd=self.folder), run(*words, "--skip-finished", cwd=self.folder)
                self.assertEqual(again.returncode, first.returncode, again.stderr)
                self.assertTrue(again.stderr.startswith("skipped: "), again.stderr)
                self.assertTrue(first.stderr.endswith(again.stderr.partition("\n")[2]), "the same table")

    def test_a_flag_that_is_taken_acts(self):
        for name in set(STUDIES) - {"verify", "reproduce"}:  # slow
            plain, _ = self.result(name, "--quiet")
            for flag, value in (("--seed", "7"), ("--seeds", "5"), ("--dtype", "f64")):
                if flag in FIXED.get(name, []):
                    continue
                if flag == "--dtype" and name in ("probe", "certify"):
                    value = "f32"  # theirs is f64 where nothing else is said
                with self.subTest(study=name, flag=flag):
                    self.assertTrue(self.result(name, "--quiet", flag, value)[0] != plain)

    def test_every_study_is_documented(self):
        documented = (DOCS / "experiments.md").read_text() + (DOCS / "questions.md").read_text()
        build = (DOCS.parent / "experiments" / "CMakeLists.txt").read_text()
        folders = re.search(r"^set\(studies ([a-z_ ]+)\)$", build, re.M)[1].split()
        sources = DOCS.parent / "experiments" / "studies"
        self.assertEqual(sorted(folders), sorted(p.name for p in sources.iterdir() if p.is_dir()))
        for name in set(STUDIES) - {"theory"}:  # the prediction of propagate alone
            self.assertTrue(f"periscope {name}" in documented, name)


if __name__ == "__main__":
    unittest.main()
