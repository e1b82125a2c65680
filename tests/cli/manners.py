"""How the program answers who does not know it: help, flags and keys that do nothing, words it does not know.
Usage: manners.py BINARY LIBRARY, which sends a signal while it is loaded"""

import os
import pathlib
import re
import signal
import sys
import unittest

from periscope_process import SMALL, SWEEPS, FolderTest, run, run_json, start_program

LIBRARY = pathlib.Path(sys.argv.pop(1)).resolve()
FIXTURE = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures" / "llama"
LIST = """
[[config]]
name = "small"
file = "small.toml"
[[theory]]
name = "strong W_down"
set = ["init.down_factor=4"]
config = "small"
"""
# A value of every flag that commands share.
COMMON = {"--config": "small.toml", "--set": "run.seed=1", "--theory-set": "model.rope=false", "--seed": "7",
          "--seeds": "5", "--threads": "1", "--device": "cpu", "--dtype": "f64", "--memory": "1G", "--out": "out",
          "--json": None, "--quiet": None, "--skip-finished": None, "--force": None,
          "--vary": "model.rope=[true]"}  # fmt: skip
# Every command with those of the common flags that it refuses.
SIMULATES = ["--config", "--set", "--vary", "--theory-set", "--seed", "--seeds", "--threads", "--device", "--dtype",
             "--memory", "--out", "--skip-finished", "--force"]
REFUSED = {
    "propagate": [], "theory": ["--theory-set", "--device", "--dtype", "--memory", "--skip-finished"],
    "ladder": ["--seeds"],
    "gradients depth": [], "gradients attenuation": [], "gradients identity-path": ["--memory"],
    "gradients score-path": [], "gradients crossover": [], "power": ["--theory-set"],
    "formats": ["--device", "--dtype", "--memory"],
    "verify": ["--vary", "--theory-set", "--seeds", "--device", "--dtype", "--memory", "--force"],
    "certify": ["--theory-set", "--seeds", "--memory", "--skip-finished"],
    "probe": ["--vary", "--theory-set", "--seeds", "--memory", "--skip-finished"],
    "train": ["--theory-set", "--memory"], "reproduce": ["--theory-set", "--memory"], "first-steps": ["--memory"],
    "write-checkpoint": ["--theory-set", "--seeds", "--memory", "--skip-finished"],
    "regauge": ["--config", "--set", "--vary", "--theory-set", "--seed", "--seeds", "--device", "--dtype", "--memory",
                "--skip-finished"],
    "generate": ["--vary", "--theory-set", "--seed", "--seeds", "--skip-finished"],
    "info": SIMULATES, "toy": SIMULATES, "list": SIMULATES,
    "cite": list(COMMON), "help": list(COMMON),
}  # fmt: skip
# What makes a command run, and quick, where SMALL and SWEEPS are its configuration; None: no configuration.
LADDER = ["--set", "ladder.widths=[32,64,96,128]", "--set", "ladder.seeds=8", "--set", "model.placement=pre",
          "--set", "init.scheme=lecun"]
TOKENS = [FIXTURE, "--tokens", "1,2,3"]
TRAIN = ["--set", "train.steps=2", "--set", "train.batch=1", "--corpus", "synthetic", "--set", "model.vocab=64"]
FIRST_STEPS = [*TRAIN, "--set", "first_steps.neurons=16"]
RUNS = {
    "propagate": [], "theory": ["--set", "theory.finite_width=true"], "ladder": LADDER,
    "gradients depth": [], "gradients attenuation": [], "gradients identity-path": [], "gradients score-path": [],
    "gradients crossover": [], "formats": ["--set", 'formats.format=["bf16"]', "--set", "theory.replicates=8"],
    "certify": ["--set", "model.placement=pre", "--set", "input.kind=tokens", "--measure"], "train": TRAIN,
    "power": ["--config", "list.toml"], "first-steps": FIRST_STEPS,
    "verify": None, "probe": None, "generate": None,
}  # fmt: skip
WITHOUT = {"verify": ["--cases", "200"], "probe": [*TOKENS, "--draws", "2"],
           "generate": TOKENS}
# The keys that act, by the beginnings of their names; those of the commands that --set does not reach are not here.
STACK = ["model.", "init.", "input."]
RUN = ["run.seed", "run.seeds", "run.threads", "run.device", "run.dtype", "run.out"]
ALL = [*STACK, *RUN, "run.backward", "run.weights", "theory.", "agreement."]


def without(keys, *taken):
    return [key for key in keys if key not in taken]


ACT = {
    "propagate": [*ALL, "run.paired"],
    "theory": [*STACK, "run.seed", "run.seeds", "run.threads", "run.out", "run.backward", "run.paired", "theory."],
    "ladder": [*without(ALL, "run.seeds"), "ladder."],
    "gradients depth": [*without(ALL, "run.backward"), "gradients."],
    "formats": [*without(ALL, "run.device", "run.dtype", "run.weights"), "formats."],
    "verify": ["run.seed", "run.threads", "run.out"],
    "train": [*STACK, *RUN, "train."],
    "first-steps": [*STACK, *RUN, "agreement.familywise_error", "agreement.power_limit.second_moment", "train.",
                    "first_steps."],
    "generate": ["run.threads", "run.device", "run.dtype", "run.out"],
}  # fmt: skip


def commands():
    """All commands, as the program's own help has them: those of a group by two words."""
    names = []
    for line in run("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0].splitlines():
        if (name := line[2:30].strip()) and line[2] != " " and name != "help":
            inner = run(name, "--help").stdout.split("Subcommands:\n")
            names += [f"{name} {row.split()[0]}" for row in inner[1].split("\n\n")[0].splitlines() if row[2:3] != " "] \
                if len(inner) > 1 else [name]
    return [*names, "help"]


def flags_in_help(command):
    return set(re.findall(r"^ +(?:-h,)?(--[a-z-]+)", run(*command.split(), "--help").stdout, re.M))


def content(answer):
    """A result, or a document, without what says how it was made."""
    return {key: value for key, value in answer.items() if key not in ("attrs", "circumstances")}


class Flags(FolderTest):
    STACK = SMALL + SWEEPS

    def setUp(self):
        super().setUp()
        (self.folder / "list.toml").write_text(LIST)

    def run_json(self, command, *flags):
        words = WITHOUT[command] if RUNS[command] is None else RUNS[command]
        config = [] if RUNS[command] is None or command == "power" else ["--config", self.config]
        result, code = run_json(*command.split(), *config, *words, *flags, "--quiet", cwd=self.folder)
        self.assertIn(code, (0, 4))  # so small a run may be rejected
        return result

    def test_a_flag_is_in_the_help_or_refused(self):
        self.assertEqual(sorted(commands()), sorted(REFUSED), "a row per command")
        for command, refused in REFUSED.items():
            if command == "help":  # `help --flag` is `--flag --help`
                continue
            shown = flags_in_help(command)
            for flag, value in COMMON.items():
                with self.subTest(command=command, flag=flag):
                    self.assertEqual(flag in shown, flag not in refused)
                    if flag not in refused:
                        continue
                    done = run(*command.split(), flag, *([value] if value else []), cwd=self.folder)
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    message = f"periscope: {command} {flag} does nothing here; it acts in "
                    self.assertTrue(done.stderr.startswith(message), done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1)

    def test_a_flag_that_is_taken_acts(self):
        for command in RUNS:
            with self.subTest(command=command):
                plain = content(self.run_json(command))
            for flag, value in (("--seed", "7"), ("--seeds", "5"), ("--dtype", "f32")):
                # `probe` and `generate` may say the same in another format or of other draws; the rest are numbers.
                if flag in REFUSED[command] or (command, flag) == ("generate", "--dtype"):
                    continue
                if flag == "--dtype" and command not in ("probe", "certify"):
                    value = "f64"  # theirs is f64 where nothing else is said, of the others f32
                with self.subTest(command=command, flag=flag):
                    self.assertTrue(content(self.run_json(command, flag, value)) != plain)

    def test_keys_that_do_nothing_are_refused(self):
        defaults = {key["name"]: key["default"] for key in run_json("list")[0]["keys"]}
        for command, acting in ACT.items():
            for key, default in defaults.items():
                acts = any(key.startswith(a) if a.endswith(".") else key == a for a in acting)
                # Of some the default is no value, as "by command", and what is no value is found first.
                if acts or not re.fullmatch(r'-?[0-9][0-9.e-]*|".+"|\[.*\]|true|false', default):
                    continue
                with self.subTest(command=command, key=key):
                    place = [FIXTURE] if command == "generate" else []
                    done = run(*command.split(), *place, "--set", f"{key}={default}")
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn(f"{key} does nothing in {command}; expected a key among ", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("model.width does nothing in verify", run("verify", "--set", "model.width=16").stderr)
        self.assertEqual(run("verify", "--cases", 200, "--config", self.config, "--quiet").returncode, 0,
                         "a file may be for several commands")

    def test_a_key_that_does_nothing_with_these_values_of_others_is_refused(self):
        for words, expected in (
                (["propagate", "--set", "init.scheme=lecun", "--vary", "init.std=[0.1,0.2]"],
                 'init.std acts only with init.scheme = "normal"'),
                (["propagate", "--set", "init.factor=2.0"], 'init.factor acts only with init.scheme = "scaled"'),
                (["propagate", "--set", "input.path=x"], 'input.path acts only with input.kind = "text"'),
                (["theory", "--set", "input.kind=tokens", "--set", "input.correlation=0.5"],
                 'input.correlation acts only with input.kind = "gaussian"')):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual((done.returncode, expected in done.stderr), (2, True), done.stderr)
        # It acts in one of the stacks.
        small = ["--set", "model.layers=1", "--set", "model.width=8", "--set", "model.heads=1"]
        done = run("theory", *small, "--vary", "init.scheme=[\"normal\",\"lecun\"]", "--set", "init.std=0.1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_flags_that_do_nothing_beside_others_are_refused(self):
        random = ["certify", "--config", self.config, "--set", "model.placement=pre", "--set", "input.kind=tokens"]
        for words, found in (
            ([*random, "--tokenizer", "bytes"], "--tokenizer does nothing for a random stack"),
            ([*random, "--max-tokens", "3"], "--max-tokens does nothing for a random stack"),
            ([*random, "--input-maximum", "3"], "--input-maximum does nothing here"),
            (["certify", FIXTURE, "--tokenizer", "bytes"], "--tokenizer does nothing without --text or --tokens"),
            (["certify", FIXTURE, "--max-tokens", "3"], "--max-tokens does nothing without --text or --tokens"),
            (["certify", FIXTURE, "--format", "fp16,bf16,fp16"], "--format: fp16 is in the list twice"),
            (["probe", *TOKENS, "--no-theory", "--draws", "4"], "--draws does nothing with --no-theory"),
            (["verify", "--replay", "case.json", "--out", "out"], "--out does nothing with --replay"),
            (["verify", "--replay", "case.json", "--seed", "3"], "--seed does nothing with --replay"),
            (["verify", "--replay", "case.json", "--cases", "3"], "--cases does nothing with --replay"),
        ):
            with self.subTest(words=words):
                done = run(*words, cwd=self.folder)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(found, done.stderr)
        self.assertEqual(list(self.folder.glob("out*")), [])

    def test_unknown_words_have_a_nearest(self):
        for words, found in ((["propagate", "--sedes", "3"],
                              "propagate --sedes: there is no such flag; nearest is --seeds"),
                             (["propagate", "--sedes=3"], "nearest is --seeds"),
                             (["probe", "--tokesn", "1"], "nearest is --tokens"),
                             (["gradients", "depth", "--tread", "1"], "gradients depth --tread: there is no such flag"),
                             (["propagte"], "nearest is propagate"),
                             (["gradients", "dept"], "nearest is gradients depth"),
                             (["help", "propagte"], "nearest is propagate")):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(found, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)


class Help(unittest.TestCase):
    def test_help_of_commands(self):
        for words in ((), ("propagate",), ("gradients",), ("gradients", "depth")):
            with self.subTest(words=words):
                done = run("help", *words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, run(*words, "--help").stdout)

    def test_alone_it_says_where_to_begin(self):
        done = run()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        listed = {row["name"]: row["command"] for row in run_json("list")[0]["experiments"]}
        for name in ("propagate", "probe", "train"):
            self.assertIn(f"periscope {listed[name]}\n", done.stderr)
        self.assertIn("periscope help", done.stderr)
        self.assertLess(len(done.stderr.splitlines()), 15)

    def test_nothing_is_wider_than_100_columns(self):
        texts = {name: run(*name.split(), "--help").stdout for name in [*commands(), "gradients"]}
        texts |= {" ".join(words): run(*words).stdout for words in (["--help"], ["list"], ["list", "--columns"])}
        texts["alone"] = run().stderr
        for name, text in texts.items():
            with self.subTest(name):
                self.assertTrue(text)
                self.assertEqual([line for line in text.splitlines() if len(line) > 100], [])


class Checkpoints(FolderTest):
    def refused(self, place, *words):
        done = run("info", place, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_what_is_no_folder_of_a_checkpoint(self):
        self.refused(FIXTURE / "config.json", "this is a file", f"safetensors files: {FIXTURE}\n")
        self.refused("nowhere", "nowhere: no such folder", "config.json")
        (self.folder / "circle").symlink_to("circle")
        self.refused("circle", "circle: Too many levels of symbolic links")
        self.refused("x" * 300, "x: File name too long")
        cache = self.folder / "models--org--name"
        for name in ("0a1b", "9f3e"):
            (cache / "snapshots" / name).mkdir(parents=True)
        self.refused(cache, f"its files are in {cache}/snapshots/0a1b\n")
        (cache / "refs").mkdir()
        (cache / "refs" / "main").write_text("9f3e")
        self.refused(cache, f"its files are in {cache}/snapshots/9f3e\n")
        (cache / "refs" / "main").write_text("../../elsewhere")
        self.refused(cache, f"its files are in {cache}/snapshots/0a1b\n")
        for name in ("pytorch_model.bin", "model.gguf"):
            with self.subTest(name):
                place = self.folder / name.replace(".", "-")
                place.mkdir()
                (place / name).write_bytes(b"PK")
                self.refused(place, f'"{name}"', "only safetensors files are read")
                (place / "config.json").write_bytes((FIXTURE / "config.json").read_bytes())
                self.refused(place, f'"{name}"', "only safetensors files are read")
                self.refused(place / name, "this is a file", "expected a folder", "save_pretrained")


class Signals(FolderTest):
    def test_a_signal_at_the_very_start(self):
        """While libraries are initialised: what is documented happens, not the system's default."""
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "SIGNAL_AT_LOAD": str(int(number))}
                process = start_program("propagate", "--config", self.config, "--out", self.folder / "out",
                                        env=environment)
                self.assertEqual(process.wait(timeout=60), 128 + number)
                self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
