"""The instruction sets for which the CPU's ops are compiled: which of them computes, what says so, and what a processor
without them is told. Usage: instructions.py BINARY LESSER_PROCESSOR (a library for LD_PRELOAD)"""

import json
import os
import pathlib
import re
import sys
import unittest

from periscope_process import SMALL, FolderTest, Result, run

LESSER_PROCESSOR = pathlib.Path(sys.argv.pop(1)).resolve()
CANNOT_HIDE = 77  # of that library
SKIPPED = "skipped: "


def at(level, *arguments, **variables):
    """The program with a level of its own choice, or with `level`."""
    environment = {key: value for key, value in os.environ.items() if key != "PERISCOPE_INSTRUCTIONS"}
    if level is not None:
        environment["PERISCOPE_INSTRUCTIONS"] = level
    return run(*arguments, environment=environment | {key: str(value) for key, value in variables.items()})


def possible_levels():
    """Those that this build has and this processor can, as the refusal of another names them."""
    return re.search(r"expected (.*)$", at("none", "list").stderr.strip())[1].split(" or ")


class Instructions(FolderTest):
    STACK = SMALL.replace("width = 32", "width = 80")

    def result(self, level, *arguments):
        done = at(level, "propagate", "--config", self.config, "--json", "--quiet", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Result(json.loads(done.stdout))

    def on(self, processor, *arguments, level=None):
        """The program on a processor of a level of x86-64."""
        done = at(level, *arguments, LD_PRELOAD=LESSER_PROCESSOR, PROCESSOR_LEVEL=processor)
        if done.returncode == CANNOT_HIDE:
            self.skipTest("this processor lets nobody catch CPUID")
        return done

    def test_a_level_that_cannot_be_is_refused_by_every_command(self):
        for command in (["list"], ["--version"], ["propagate", "--config", self.config]):
            for level in ("x86-64-v5", "V4", "none\n"):
                done = at(level, *command)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr.startswith("periscope: PERISCOPE_INSTRUCTIONS = "), done.stderr)
        self.assertEqual(at("", "list").returncode, 0, "empty is as good as absent")

    def test_the_version_names_the_best(self):
        self.assertIn(f", {possible_levels()[-1]})", at(None, "--version").stdout)

    def test_a_result_says_which_level_computed_it(self):
        levels = possible_levels()
        found = {level: self.result(level).attrs for level in levels}
        self.assertEqual({level: origin["instructions"] for level, origin in found.items()},
                         {level: level for level in levels})
        self.assertEqual(len({origin["program_sha256"] for origin in found.values()}), len(levels))
        self.assertEqual(self.result(None).attrs["instructions"], levels[-1])
        reference = [self.result(level, "--device", "reference") for level in levels]
        self.assertEqual({one.attrs["instructions"] for one in reference}, {levels[0]})
        self.assertTrue(all(one.data() == reference[0].data() for one in reference), "the same bits")

    def test_no_level_takes_what_another_finished(self):
        words = ["propagate", "--config", self.config, "--out", self.folder / "out", "--skip-finished"]
        levels = possible_levels()
        for level in levels:
            self.assertNotIn(SKIPPED, at(level, *words).stderr)
        self.assertIn(SKIPPED, at(levels[-1], *words).stderr)
        if len(levels) > 1:
            self.assertIn("cannot reuse", at(levels[0], *words).stderr)

    def test_a_processor_without_avx512_gets_the_level_below(self):
        if len(possible_levels()) == 1:
            self.skipTest("there is one level")
        done = self.on(3, "propagate", "--config", self.config, "--json", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["attrs"]["instructions"], "x86-64-v3")
        refused = self.on(3, "list", level="x86-64-v4")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn('"x86-64-v4", unsupported by this processor: expected x86-64-v3\n', refused.stderr)

    def test_a_processor_without_avx2_gets_a_sentence(self):
        if possible_levels()[0] != "x86-64-v3":
            self.skipTest("compiled for another processor")
        for command in ([], ["--version"], ["propagate", "--config", self.config]):
            done = self.on(2, *command)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"^periscope: this processor .* does not support x86-64-v3 .*\n$")


if __name__ == "__main__":
    unittest.main()
