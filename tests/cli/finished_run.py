"""--skip-finished: what is there is not computed again, and only that. Usage: finished_run.py BINARY"""

import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import unittest

from periscope_process import BINARY, FolderTest, cached, run, run_result, sets

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ("--theory-set", "init.down_factor=2")  # a theory that is rejected: exit code 4
SKIPPED, AGAIN = "skipped: ", "running again: "
NO_RUN = "the cache has no finished run with these settings and this build of the program"


class FinishedRun(FolderTest):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "words.txt"
        self.text.write_text("periscope looks above")
        self.settings = ["--set", 'input.kind=["gaussian","text"]', "--set", f"input.path={self.text}"]

    def propagate(self, *extra, binary=BINARY):
        words = [binary, "propagate", "--config", self.config, *self.settings, *WRONG, "--seeds", 16, "--out",
                 self.folder / "out", "--skip-finished", *extra]
        return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120)

    def result(self):
        return self.folder / "out" / "propagate.nc"

    def record(self):
        """The file of the one finished run."""
        found, = cached(self.folder / "out", finished=True)
        return found

    def check_again(self, done, reason):
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertNotIn(SKIPPED, done.stderr)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith(AGAIN)]
        self.assertIn(str(self.result()), line)
        self.assertIn(reason, line)
        self.assertIn(SKIPPED, self.propagate().stderr, "what replaced it counts")

    def test_a_finished_run_is_skipped_and_its_verdict_counts(self):
        first = self.propagate()
        self.assertEqual(first.returncode, 4, first.stderr)
        self.assertNotIn(SKIPPED, first.stderr)
        self.assertNotIn(AGAIN, first.stderr, "nothing was there")
        before = self.result().read_bytes()
        again = self.propagate()
        self.assertEqual((again.returncode, again.stdout), (4, ""))
        head, _, table = again.stderr.partition("\n")
        self.assertEqual(head, f"{SKIPPED}{self.result()} has the result of this configuration and program")
        self.assertIn("disagrees", table)
        self.assertTrue(first.stderr.endswith(table), "the same table")
        self.assertEqual(self.result().read_bytes(), before)
        self.assertEqual((len(list(self.result().parent.iterdir())), cached(self.folder / "out")), (2, []))
        quiet = self.propagate("--quiet")
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (4, "", ""))

    def test_what_changes_no_result_is_skipped_and_all_else_runs(self):
        other = self.folder / "other.txt"
        other.write_bytes(self.text.read_bytes())
        for extra, counts in ((["--threads", 1], True), (["--set", f"input.path={other}"], True),
                              (sets("init.std=0.5", "init.scheme=normal"), False), (["--seed", 3], False),
                              (["--backward"], False), (sets("agreement.familywise_error=0.02"), False),
                              (["--dtype", "f64"], False)):  # fmt: skip
            with self.subTest(extra):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                self.propagate()
                self.assertIn(SKIPPED if counts else NO_RUN, self.propagate(*extra).stderr)
        self.propagate()
        self.text.write_text("periscope looks below")
        self.check_again(self.propagate(), NO_RUN)

    def test_another_program_runs(self):
        other = self.folder / "periscope"
        program = BINARY.read_bytes()
        identities = set(re.findall(rb"(?<![0-9a-f])([0-9a-f]{64})\0", program))
        self.assertEqual(len(identities), 2, "of the sources, and of how they were compiled")
        for mine in identities:  # it runs as before
            program = program.replace(mine, mine[::-1])
        other.write_bytes(program)
        other.chmod(0o755)
        self.propagate(binary=other)
        self.assertIn(NO_RUN, self.propagate().stderr)

    def test_a_damaged_file_is_not_trusted(self):
        self.propagate()
        whole = self.result().read_bytes()
        shown, _ = run_result("propagate", "--config", self.config, *self.settings, *WRONG, "--seeds", 16, "--quiet")
        record = self.record().read_bytes()
        number = whole.index(struct.pack("<d", shown["variance_measured"][0][0][1]))
        flipped = whole[:number] + bytes([whole[number] ^ 1]) + whole[number + 1:]
        for name, content, reason in (("cut", whole[:len(whole) // 2], "the file was changed after the run"),
                                      ("empty", b"", "the file was changed after the run"),
                                      ("no NetCDF", b"no NetCDF", "the file was changed after the run"),
                                      ("one bit", flipped, "the file was changed after the run")):
            with self.subTest(name):
                self.result().write_bytes(content)
                self.check_again(self.propagate(), reason)
        for name, content, reason in (
                ("none", None, NO_RUN),
                ("cut", record[:-20], "checksum mismatch"),
                ("empty", b"", "checksum mismatch"),
                ("of another run", record, "the file was changed after the run")):
            with self.subTest(record=name):
                file = self.record()
                file.unlink()
                if content is not None:
                    file.write_bytes(content)
                self.check_again(self.propagate(), reason)

    def test_a_run_that_ends_between_result_and_record_does_not_count(self):
        self.propagate()
        record = self.record()
        record.unlink()
        record.mkdir()  # the record cannot be written
        done = self.propagate()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(str(record), done.stderr)
        record.rmdir()
        self.assertIn(NO_RUN, self.propagate().stderr)
        self.assertIn(SKIPPED, self.propagate().stderr)

    def test_what_is_no_file_is_not_trusted(self):
        self.propagate()
        self.result().unlink()
        os.mkfifo(self.result())
        done = self.propagate()
        self.assertIn("expected a regular file", done.stderr)
        self.assertNotIn(SKIPPED, done.stderr)

    def test_what_is_there_needs_no_memory(self):
        """Big enough that a limit refuses the run, and lets a result of it be read."""
        words = [str(BINARY), "propagate", "--config", str(self.config), "--seeds", "1", "--threads", "1",
                 "--out", str(self.folder / "out")]
        for key in ("model.mlp_width=32768", "model.width=2048", "model.layers=1", "input.tokens=300",
                    "init.qk_factor=0.0", "model.placement=pre"):
            words += ["--set", key]
        self.assertEqual(subprocess.run([*words, "--quiet"], timeout=120).returncode, 0)

        def limited(*extra):
            return subprocess.run([*words, *extra], capture_output=True, text=True, timeout=120,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (190 << 20,) * 2))

        refused = limited()
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("memory estimate", refused.stderr)
        skipped = limited("--skip-finished")
        self.assertEqual(skipped.returncode, 0, skipped.stderr)
        self.assertIn(SKIPPED, skipped.stderr)

    def test_the_exit_code_of_a_flag_is_not_kept(self):
        words = ["propagate", "--config", self.config, "--set", "model.placement=none", "--set", "model.layers=60",
                 "--set", "init.scheme=scaled", "--set", "init.factor=1e30", "--out", self.folder / "out"]
        done = run(*words, "--fail-on-divergence")
        self.assertEqual(done.returncode, 5, done.stderr)
        done = run(*words, "--skip-finished")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("depends on the flags", done.stderr)

    def test_a_run_that_could_not_write_all_its_files_is_not_finished(self):
        out = self.folder / "out"
        words = ["verify", "--cases", 2000, "--scale", 0.2, "--out", out]
        done = run(*words)
        self.assertEqual(done.returncode, 4, done.stderr)
        case = sorted(out.glob("violation-*.json"))[-1]
        shutil.rmtree(out)
        case.mkdir(parents=True)
        done = run(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(case.name, done.stderr)
        self.assertEqual(cached(out, finished=True), [], "the record is written last")

    def test_the_result_of_another_study_is_not_trusted(self):
        words = ["--config", self.config, "--out", self.folder / "out"]
        self.assertEqual(run("gradients", "identity-path", *words).returncode, 0)
        (self.folder / "out" / "identity_path.nc").rename(self.folder / "out" / "score_path.nc")
        done = run("gradients", "score-path", *words, "--skip-finished")
        self.assertNotIn(SKIPPED, done.stderr)
        self.assertIn(NO_RUN, done.stderr)
        self.assertEqual(run("theory", *words).returncode, 0)
        (self.folder / "out" / "theory.nc").rename(self.folder / "out" / "propagate.nc")
        done = run("propagate", *words, "--skip-finished")
        self.assertNotIn(SKIPPED, done.stderr, "which measured nothing")
        self.assertIn(NO_RUN, done.stderr)

    def test_lab_removes_a_build_folder_of_another_place(self):
        """Every command that configures or builds asks for the system's packages first."""
        script = (f"source {ROOT}/lab; cd {self.folder}; packages=(); check_tools() {{ :; }}; has_apt() {{ false; }}; "
                  "make_venv() { echo ready; exit 0; }; build() { make_venv; }; {command}")
        cache = self.folder / "build" / "CMakeCache.txt"
        for command in ("python_module", "wheel", "docs", "bench", "set_up all"):
            for place, stays in (("/elsewhere", False), (self.folder, True)):
                with self.subTest(command=command, place=place):
                    cache.parent.mkdir(exist_ok=True)
                    cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={place}\n")
                    whole = script.replace("{command}", command)
                    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, timeout=60)
                    self.assertEqual((done.returncode, done.stdout), (0, "ready\n"), done.stderr)
                    self.assertEqual(cache.exists(), stays)

    def test_lab_counts_the_verdict_of_a_skipped_experiment(self):
        (self.folder / "build").mkdir()
        (self.folder / "build" / "periscope").symlink_to(BINARY)
        script = (f'source {ROOT}/lab; cd {self.folder}; skip={{skip}}; job propagate --config small.toml --seeds 16 '
                  f'--out out {" ".join(WRONG)}; echo "verdict $verdict"')
        for skip, skipped in (("$skip", False), ("$skip", True), ("", False)):
            done = subprocess.run(["bash", "-c", script.replace("{skip}", skip)], capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("verdict 4", done.stdout)
            self.assertEqual(SKIPPED in done.stderr, skipped, done.stderr)


if __name__ == "__main__":
    unittest.main()
