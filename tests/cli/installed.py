"""The installed program: it finds its files wherever they are moved to, its completion knows the commands and flags,
and one version stands everywhere. Usage: installed.py BINARY BUILD_FOLDER SOURCE_FOLDER"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

from periscope_process import FolderTest, run, run_result

BUILD, SOURCE = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()


def text_of(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, **options)


class Installed(FolderTest):
    def setUp(self):
        super().setUp()
        done = text_of("cmake", "--install", BUILD, "--prefix", self.folder / "first")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.prefix = (self.folder / "first").rename(self.folder / "moved")
        self.program = self.prefix / "bin" / "periscope"

    def test_it_finds_its_configurations_where_it_was_moved_to(self):
        shipped = self.prefix / "share" / "periscope" / "configs"
        self.assertEqual({path.name for path in shipped.iterdir()},
                         {path.name for path in (SOURCE / "experiments" / "configs").iterdir()})
        (shipped / "power.toml").write_text("nonsense = 1\n")
        done = text_of(self.program, "power", cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(str(shipped / "power.toml"), done.stderr)
        (shipped / "power.toml").unlink()
        self.assertIn("neither in the working directory nor", text_of(self.program, "power", cwd=self.folder).stderr)

    def test_completion_knows_commands_and_flags(self):
        script = next(self.prefix.glob("share/bash-completion/completions/periscope"))

        def completed(*words):
            line = " ".join(f"'{word}'" for word in ("periscope", *words))
            body = (f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _periscope; "
                    "printf '%s\\n' \"${COMPREPLY[@]}\"")
            done = text_of("bash", "-c", body)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout.split()

        self.assertEqual(completed("prop"), ["propagate"])
        self.assertEqual(completed("gradients", "sc"), ["score-path"])
        self.assertEqual(completed("gradients", "depth", "--skip"), ["--skip-finished"])
        self.assertEqual(completed("propagate", "depth", "--confi"), ["--config"])


class Citation(FolderTest):

    def test_one_version_everywhere(self):
        version = re.search(r"project\(periscope VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        citation = re.search(r"^version: (\S+)$", (SOURCE / "CITATION.cff").read_text(), re.M)[1]
        newest = re.search(r"^## \[(\S+)\]", (SOURCE / "CHANGELOG.md").read_text(), re.M)[1]
        self.assertEqual({version}, {citation, newest, run("--version").stdout.split()[1]})

    def test_citation_of_the_program_and_of_a_result(self):
        alone = run("cite")
        self.assertEqual((alone.returncode, alone.stdout.count("\n@") + 1), (0, 2), alone.stderr)
        paper = (SOURCE / "CITATION.cff").read_text()
        for family, given in re.findall(r"family-names: (.*)\n +given-names: (.*)", paper):
            self.assertIn(f"{family}, {given}", alone.stdout)
        out = self.folder / "out"
        result, _ = run_result("propagate", "--config", self.config, "--out", out, "--quiet")
        origin = result.attrs
        cited = run("cite", out / "propagate.nc").stdout
        for key in ("version", "commit", "device", "instructions", "config_sha256"):
            self.assertIn(origin[key].replace("_", "\\_"), cited, json.dumps(origin))
        self.assertIn("study propagate", cited)
        self.assertEqual(cited.count("{"), cited.count("}"))


if __name__ == "__main__":
    unittest.main()
