"""Where results go: what is no file is not replaced, a full disk and a closed or broken stream are said, and nothing
that was computed is lost for a message.

Usage: outputs.py BINARY DISK_FAULTS, the library of tests/outputs/disk_faults.cpp
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import threading
import unittest

DISK_FAULTS = pathlib.Path(sys.argv.pop(2)).resolve()

import tiny_checkpoint  # noqa: E402
from periscope_process import BINARY, FolderTest, cached, contents, run  # noqa: E402  takes the argument before DISK_FAULTS

SMALL = ("--set", "model.layers=1", "--set", "model.placement=pre")
CHECKPOINT = ("--family", "llama", "--set", "model.width=8", "--set", "model.heads=2", "--set", "model.layers=1",
              "--set", "model.placement=pre", "--set", "model.vocab=16", "--set", "model.mlp=swiglu")


def without_standard(*descriptors):
    """How to start a process without some of the standard streams, of which the tests may lack some already."""
    def close():
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    return {"preexec_fn": close}


def periscope(*arguments, **how):
    return subprocess.run([str(BINARY), *map(str, arguments)], check=False, timeout=300,
                          **{"stderr": subprocess.PIPE, **how})


class Outputs(FolderTest):
    def setUp(self):
        super().setUp()
        self.config.write_text(self.config.read_text().replace("seeds = 4", "seeds = 2"))
        self.small = ("--config", self.config, *SMALL)

    def said(self, done, code, *words, lines=1):
        """Exit code and words of a message of one line."""
        error = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
        self.assertEqual(done.returncode, code, error)
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("\n"), lines, error)

    def result(self):
        """A result file."""
        out = self.folder / "given"
        if not (out / "theory.nc").exists():
            self.assertEqual(run("theory", *self.small, "--quiet", "--out", out).returncode, 0)
        return out / "theory.nc"

    def commands(self, out):
        """Every command that writes files, into the folder `out`, and one of the files."""
        tiny = self.folder / "tiny"
        if not tiny.exists():
            tiny_checkpoint.write(tiny)
        probe = ("probe", tiny, "--tokens", "1,2,3", "--no-theory")
        return {"propagate": (("propagate", *self.small, "--out", out), "propagate.nc"),
                "theory": (("theory", *self.small, "--out", out), "theory.nc"),
                "verify": (("verify", "--cases", 20, "--out", out), "verify.nc"),
                "certify": (("certify", tiny, "--out", out), "certify.nc"),
                "probe": ((*probe, "--out", out), "probe.nc"),
                "ladder": (("ladder", *self.small, "--set", "ladder.widths=[16, 24, 32, 48]", "--set", "ladder.seeds=8",
                            "--set", "model.width=16", "--set", "model.kv_heads=2", "--set", "model.mlp_width=16",
                            "--out", out), "ladder.nc"),
                "formats": (("formats", *self.small, "--set", 'formats.format=["bf16"]', "--set",
                             "formats.certificates=false", "--out", out), "formats.nc"),
                "gradients": (("gradients", "identity-path", *self.small, "--out", out), "identity_path.nc"),
                "propagate --dump": (("propagate", *self.small, "--dump", out), "model.safetensors"),
                "probe --dump": ((*probe, "--dump", out), "activations.safetensors"),
                "write-checkpoint": (("write-checkpoint", *CHECKPOINT, "--out", out), "model.safetensors"),
                "regauge": (("regauge", tiny, "--factor", 2, "--out", out), "model.safetensors"),
                "csv": (("theory", *self.small, "--csv", out / "result.csv"), "result.csv")}

    # -- what is there ------------------------------------------------------------------------------------------------

    def csv(self, name, *flags, **options):
        return periscope("theory", *self.small, "--quiet", "--csv", name, *flags, **options)

    def text(self):
        return run("theory", *self.small, "--quiet", "--csv", "-").stdout

    def test_text_is_written_into_what_is_no_file(self):
        expected = self.text()
        self.assertGreater(len(expected), 1000)
        self.assertEqual(self.csv("/dev/null").returncode, 0)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode), "a device is no file to replace")

        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        read = []
        reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
        reader.start()
        done = self.csv(fifo)
        self.assertTrue(fifo.is_fifo(), done.stderr)
        reader.join()
        self.assertEqual((read, done.returncode), ([expected], 0))

        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            with self.subTest(name=name):
                self.assertEqual(self.csv(name,
                                           stdout=subprocess.PIPE).stdout.decode(),
                                 expected)
                log = self.folder / "log"
                with open(log, "w") as file:
                    file.write("before\n")
                    file.flush()
                    inode = os.fstat(file.fileno()).st_ino
                    self.assertEqual(self.csv(name, stdout=file).returncode, 0)
                self.assertEqual((log.read_text(), log.stat().st_ino), ("before\n" + expected, inode))
        self.said(self.csv("/dev/full"), 1, "/dev/full", "No space left on device")
        self.said(self.csv(self.folder), 2, str(self.folder), "found a folder")

    def test_what_is_no_csv_is_not_overwritten_unasked(self):
        expected = self.text()
        other = self.folder / "config.json"
        for text in ('{"a": 1}', "v", "variables", " variable,"):
            other.write_text(text)
            done = self.csv(other)
            if text == "variables":  # begins as a CSV of ours does
                self.assertEqual((done.returncode, other.read_text()), (0, expected))
                continue
            self.said(done, 2, str(other), "not CSV", "--force")
            self.assertEqual(other.read_text(), text)
        self.assertEqual(self.csv(other, "--force").returncode, 0)
        self.assertEqual(other.read_text(), expected)
        for text in ("", expected, "variable,depth,value\n"):
            other.write_text(text)
            self.assertEqual(self.csv(other).returncode, 0)
            self.assertEqual(other.read_text(), expected)

    def test_a_link_stays(self):
        (self.folder / "far").mkdir()
        link = self.folder / "link.csv"
        link.symlink_to("far/result.csv")
        self.assertEqual(self.csv(link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(link.read_text(), self.text())
        self.assertEqual(os.listdir(self.folder / "far"), ["result.csv"])

    def test_a_result_is_not_written_as_csv_onto_itself(self):
        result = self.result()
        before = result.read_bytes()
        for name in (result, result.parent / ".." / "given" / "theory.nc", self.folder / "new" / "theory.nc"):
            self.said(self.csv(name, "--out", name.parent), 2, str(name), "the result file itself")
        self.assertEqual(result.read_bytes(), before)
        self.assertFalse((self.folder / "new").exists())

    def test_results_do_not_replace_what_is_no_file(self):
        """And it is said before anything is computed."""
        out = self.folder / "out"
        for name, (command, file) in self.commands(out).items():
            if file.endswith(".csv"):
                continue
            with self.subTest(command=name):
                out.mkdir(exist_ok=True)
                os.mkfifo(out / file)
                # A model that is there at all is refused without --force.
                force = ("--force",) if file.endswith(".safetensors") else ()
                self.said(periscope(*command, *force), 2, str(out / file), "found a FIFO")
                self.assertTrue((out / file).is_fifo())
                self.assertEqual(os.listdir(out), [file], "and nothing is left beside it")
                (out / file).unlink()
        os.mkfifo(out / "verify.json")
        self.said(periscope(*self.commands(out)["verify"][0]), 2, "verify.json", "found a FIFO")

    def test_what_is_in_the_way_is_said_at_the_start(self):
        blocker = self.folder / "file"
        blocker.write_text("")
        for folder, code, words in ((blocker, 2, (f"{blocker}: expected a folder, found a regular file",)),
                                    (blocker / "below", 2, (f"{blocker}: expected a folder, found a regular file",)),
                                    (pathlib.Path("/proc"), 1, ("cannot write /proc/", "No such file or directory")),
                                    (pathlib.Path("/proc/no/such"), 1,
                                     ("cannot write /proc/no/such", "No such file or directory")),
                                    (self.folder / ("n" * 300), 1, ("File name too long",))):
            for name, (command, _) in self.commands(folder).items():
                with self.subTest(command=name, folder=folder):
                    # One line: no progress was shown, so nothing was computed.
                    self.said(periscope(*command), code, *words)
        self.assertEqual(blocker.read_text(), "")

    def test_a_model_is_not_overwritten_unasked(self):
        for name, (command, _) in self.commands(self.folder / "model").items():
            if "dump" not in name and name not in ("write-checkpoint", "regauge"):
                continue
            with self.subTest(command=name):
                out = self.folder / name.replace(" ", "")
                command = [out if a == self.folder / "model" else a for a in command]
                self.assertEqual(periscope(*command, "--quiet").returncode, 0)
                files = contents(out)
                self.assertTrue(files)
                # Each of the files by itself is enough to refuse.
                for kept in files:
                    for file in files:
                        (out / file).unlink(missing_ok=True)
                    (out / kept).write_text("mine")
                    self.said(periscope(*command, "--quiet"), 2, str(out / kept), "--force")
                    self.assertEqual([(path.name, path.read_text()) for path in out.iterdir()], [(kept, "mine")])
                self.assertEqual(periscope(*command, "--quiet", "--force").returncode, 0)
                self.assertEqual(contents(out), files)

    # -- a full disk --------------------------------------------------------------------------------------------------

    def on_a_full_disk(self, command, room, log=None):
        environment = {**os.environ, "LD_PRELOAD": str(DISK_FAULTS)}
        if room is not None:
            environment["DISK_ROOM"] = str(room)
        if log is not None:
            environment["DISK_LOG"] = str(log)
        return periscope(*command, env=environment, stdout=subprocess.PIPE)

    def test_a_full_disk_is_said_as_such(self):
        for name, (command, file) in self.commands(self.folder / "out").items():
            if name in ("propagate", "theory", "ladder", "formats", "gradients"):
                continue  # their cache is full first; see below
            with self.subTest(command=name):
                out = self.folder / "out"
                command = (*command, "--force") if file.endswith(".safetensors") else command
                self.assertEqual(periscope(*command, "--quiet").returncode, 0)
                old = contents(out)
                size = (out / file).stat().st_size
                # The table in a result says how long it took, which is not as many letters every time.
                for room in (0, 1, size // 2, size - (1 if file.endswith(".safetensors") else 100)):
                    done = self.on_a_full_disk((*command, "--quiet"), room)
                    self.said(done, 1, f"cannot write {out}/", "No space left on device")
                    self.assertEqual(contents(out), old)

    def test_files_are_synced_before_they_are_renamed(self):
        for name, (command, file) in self.commands(self.folder / "out").items():
            with self.subTest(command=name):
                log = self.folder / "disk.log"
                log.write_text("")
                self.assertEqual(self.on_a_full_disk(command, None, log).returncode, 0)
                lines = re.sub(r"[0-9a-f]{16}\.tmp", "tmp", log.read_text()).splitlines()
                path = f"{self.folder}/out/{file}"
                renamed = lines.index(f"rename {path}.tmp {path}")
                self.assertIn(f"sync {path}.tmp", lines[:renamed])
                self.assertIn(f"sync {self.folder}/out", lines[renamed:])
                shutil.rmtree(self.folder / "out")

    def test_a_result_that_does_not_fit_is_resumed_from_the_cache(self):
        out = self.folder / "out"
        command = ("propagate", *self.small, "--set", "run.seeds=8", "--out", out)
        with open("/dev/full", "w") as full:
            self.assertEqual(periscope(*command, "--json", stdout=full).returncode, 1)
        # Room for the tasks, but not for the result.
        room = sum(task.stat().st_size for task in cached(out)) + (out / "propagate.nc").stat().st_size // 2
        shutil.rmtree(out)
        done = self.on_a_full_disk((*command, "--quiet"), room)
        self.said(done, 1, f"cannot write {out}/propagate.nc: No space left on device",
                  f"finished tasks are cached in {cached(out)[0].parent}; the same command resumes from them", lines=2)
        self.assertEqual(os.listdir(out), ["cache"])
        done = periscope(*command)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(b"seed", done.stderr.split(b"wrote")[0], "all seeds were cached")
        self.assertEqual(sorted(os.listdir(out)), ["cache", "propagate.nc"])

    # -- standard streams ---------------------------------------------------------------------------------------------

    PRINTING = (("--version",), ("--help",), ("propagate", "--help"), ("list",), ("list", "--json"),
                ("list", "--columns"), ("toy", "--json", "--quiet"))

    def printing(self):
        tiny = self.folder / "tiny"
        if not tiny.exists():
            tiny_checkpoint.write(tiny)
        return (*self.PRINTING, ("info", tiny), ("info", tiny, "--json"),
                ("theory", *self.small, "--csv", "-", "--quiet"),
                ("theory", *self.small, "--json", "--quiet"), ("propagate", *self.small, "--json", "--quiet"))

    def test_standard_output_that_is_full_or_closed_or_broken(self):
        read, write = os.pipe()
        os.close(read)
        with open("/dev/full", "w") as full, os.fdopen(write, "w") as broken:
            for how, words in (({"stdout": full}, "No space left on device"), ({"stdout": broken}, "Broken pipe"),
                               (without_standard(1), "Bad file descriptor")):
                for command in self.printing():
                    with self.subTest(command=command, words=words):
                        self.said(periscope(*command, **how), 1, f"cannot write to standard output: {words}")

    def test_a_result_is_written_whatever_happens_to_its_messages(self):
        expected = run("propagate", *self.small, "--json", "--quiet", "--out", self.folder / "expected",
                       "--csv", self.folder / "expected/propagate.csv")
        self.assertEqual(expected.returncode, 0)

        closed = without_standard
        for i, how in enumerate((closed(0), closed(1), closed(2), closed(0, 2), closed(0, 1, 2), "full", "broken")):
            with self.subTest(how=i):
                out = self.folder / f"out{i}"
                fails = i in (1, 4, 5, 6)
                if isinstance(how, str):
                    read, write = os.pipe()
                    os.close(read)
                    stream = open("/dev/full", "w") if how == "full" else os.fdopen(write, "w")
                    self.addCleanup(stream.close)
                    how = {"stdout": stream, "stderr": stream}
                else:
                    how = {"stdout": subprocess.PIPE, **how}
                done = periscope("propagate", *self.small, "--json", "--out", out, "--csv",
                                 out / "propagate.csv", "--dump", out / "dump", **how)
                self.assertEqual(done.returncode, 1 if fails else 0)
                if not fails:
                    self.assertEqual(*(json.loads(r.stdout)["data_vars"] for r in (done, expected)))
                for file in ("model.safetensors", "activations.safetensors"):
                    self.check_safetensors(out / "dump" / file)
                self.assertEqual((out / "propagate.csv").read_text(),
                                 (self.folder / "expected/propagate.csv").read_text())
                # What could not be printed can still be had without computing it again.
                self.assertEqual(bool(cached(out)), fails)

    def test_progress_goes_into_no_file(self):
        """While probe writes it shows progress, and the file must not have got the descriptor of standard error."""
        command, file = self.commands(self.folder / "expected")["probe --dump"]
        self.assertEqual(periscope(*command).returncode, 0)
        command, _ = self.commands(self.folder / "out")["probe --dump"]
        for closed in ((2,), (0, 2), (1, 2), (0, 1, 2)):
            with self.subTest(closed=closed):
                done = periscope(*command, "--force", **without_standard(*closed))
                self.assertEqual(done.returncode, 0)
                self.assertEqual(contents(self.folder / "out")[file], contents(self.folder / "expected")[file])

    def check_safetensors(self, path):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        self.assertEqual(max(t["data_offsets"][1] for t in header.values()), len(data) - 8 - length)

    def test_a_file_longer_than_allowed(self):
        import resource
        out = self.folder / "out"
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
        self.said(periscope("theory", *self.small, "--quiet", "--out", out, **limit), 1, ": File too large")
        self.assertEqual(contents(out), {})


if __name__ == "__main__":
    unittest.main()
