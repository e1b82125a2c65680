"""Configuration keys: listed, resolved and hashed from one table. Usage: configuration.py BINARY"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from periscope_process import BINARY, FolderTest, Result, run, run_result, sets

# The mean field's finite-width term is allowed for where theory is in the limit of infinite width.
LIMIT = ("theory.finite_width=false",)
BACKWARD = ("run.backward=true",)
TRAIN = ("train.steps=4", "train.batch=4")
FIRST_STEPS = ("train.steps=2", "train.batch=4", "first_steps.neurons=16")


@dataclasses.dataclass(frozen=True)
class Row:
    """Another value of a key than SMALL's, and what that changes: "measured", "predicted" or "judged" numbers, and all
    that are named behind. "judged" leaves the two before as they are, to the bit, and "predicted" what is measured."""

    value: str
    changes: str = "measured"
    base: tuple = ()  # settings under which the key counts
    command: str = "propagate"


# A row per key of `list`.
ROWS = {
    "model.preset": Row("400M"),  # head_dim, which SMALL leaves to it
    "model.recipe": Row("olmo2"), "model.layers": Row("3"), "model.width": Row("64"), "model.heads": Row("4"),
    "model.kv_heads": Row("2"),
    "model.head_dim": Row("8"), "model.mlp": Row("relu"), "model.mlp_width": Row("40"), "model.norm": Row("layer"),
    "model.norm_eps": Row("1e-3"), "model.norm_alpha": Row("0.7", base=("model.norm=dyt", "model.placement=pre")),
    "model.gamma": Row("0.5"), "model.placement": Row("post"),
    "model.embedding_norm": Row("true", base=("input.second_moment=3",)),
    "model.final_norm": Row("false", base=BACKWARD), "model.qk_norm": Row("head"),
    "model.layer_placement": Row('[{layers = "0-0", placement = "post"}]'),
    "model.streams": Row("3", base=("model.placement=hyper", "model.stream_write=one")),
    "model.stream_mixing": Row("random", base=("model.placement=hyper", "model.stream_write=one")),
    "model.stream_write": Row("one", base=("model.placement=hyper",)),
    "model.layer_scale": Row("0.3", base=("model.placement=layer-scale",)),
    "model.v_norm": Row("true"), "model.inner_norm": Row("both"), "model.attention_gate": Row("head"),
    "model.rope": Row("false"),
    "model.causal": Row("false"), "model.vocab": Row("300", base=BACKWARD),
    "model.unembedding": Row("false", base=BACKWARD), "init.scheme": Row("he"),
    "init.std": Row("0.1", base=("init.scheme=normal",)), "init.factor": Row("2", base=("init.scheme=scaled",)),
    "init.qk_factor": Row("0.5"), "init.o_factor": Row("0.5"), "init.down_factor": Row("0.5"),
    "init.residual": Row("1/sqrt(2L)"), "init.truncation": Row("3"), "init.embedding_std": Row("0.5"),
    "init.head_std": Row("0.1", base=BACKWARD), "init.position_std": Row("0.3", base=("init.embedding_std=1",)),
    "input.kind": Row("tokens"),
    "input.tokens": Row("5"), "input.second_moment": Row("2.0"), "input.correlation": Row("0.5"),
    "input.path": Row("other.txt", base=("input.kind=text", "input.path=some.txt")),
    "run.seed": Row("1"), "run.seeds": Row("5"), "run.device": Row("reference"), "run.dtype": Row("f64"),
    "run.backward": Row("true"), "run.paired": Row("false"), "run.weights": Row("matrix-free"),
    "run.threads": Row("1", "nothing"),
    "run.out": Row("results", "nothing"),
    # A theory of the mean field samples attention patterns; a tighter one more of them.
    "theory.tolerance": Row("0.002", "predicted", ("theory.finite_width=false",)),
    "theory.gradient_tolerance": Row("0.05", "predicted", BACKWARD), "theory.fault": Row("beta0", "predicted"),
    "theory.finite_width": Row("false", "predicted"), "theory.replicates": Row("100", "predicted"),
    "agreement.familywise_error": Row("0.05", "judged"), "agreement.finite_width": Row("0.7", "judged", LIMIT),
    "agreement.finite_width_cosine": Row("0.7", "judged", LIMIT),
    "agreement.finite_width_gradient": Row("0.7", "judged", BACKWARD),
    **{f"agreement.power_limit.{name}": Row("0.3", "judged", BACKWARD)
       for name in ("second_moment", "variance", "token_cosine", "log_grad_sq")},
    "agreement.power_limit.score_share": Row("0.3", "judged", ("agreement.power_limit.score_share=1e-4", *BACKWARD)),
    "ladder.widths": Row("[32,64,96,160]", "all", ("ladder.widths=[32,64,96,128]", "ladder.seeds=8"), "ladder"),
    "ladder.seeds": Row("9", "all", ("ladder.widths=[32,64,96,128]", "ladder.seeds=8"), "ladder"),
    **{f"formats.{name}": Row(value, "all", ("formats.certificates=false", 'formats.format=["fp16","int8"]', *base),
                              "formats")
       for name, value, *base in (
           ("format", '["fp16"]'), ("covers", '["weights"]'), ("rest", "fp16"), ("scale", "block"),
           ("accumulate", "format"),
           ("rounding", "stochastic"), ("overflow", "saturate", "model.gamma=1e5"),
           ("loss_scale", "3", "run.backward=true"),
           ("massive", "10"), ("massive_features", "2", "formats.massive=10"), ("certificates", "true"))},
    **{f"train.{name}": Row(value, "all", (*TRAIN, *base), "train")
       for name, value, *base in (
           ("corpus", "other.txt", "train.corpus=some.txt"), ("validation", "0.3"), ("record_every", "3"),
           ("record_sequences", "2"), ("accumulate", "2"), ("steps", "5"), ("batch", "8"), ("optimizer", "sgd"),
           ("lr", "0.01"), ("warmup", "0.5"), ("schedule", "constant"), ("beta1", "0.5"), ("beta2", "0.5"),
           ("eps", "0.01"), ("momentum", "0.5", "train.optimizer=sgd"), ("weight_decay", "0.5"), ("clip", "0.01"),
           ("frozen", '["q"]'))},
    **{f"first_steps.{name}": Row(value, changes, FIRST_STEPS, "first-steps")
       for name, value, changes in (
           ("neurons", "24", "predicted"), ("replicates", "9", "predicted"), ("fault", "no-noise", "predicted"),
           ("predict_only", "true", "measured"),
           ("change_limit", "100", "judged"), ("cosine_limit", "100", "judged"), ("loss_limit", "0.3", "judged"),
           ("update_limit", "100", "judged"))},
    "gradients.layers": Row("[1,2,5]", "all", ("gradients.layers=[1,2,4]",), "gradients depth"),
    "gradients.qk_factors": Row("[0.0,2.0]", "all", (), "gradients attenuation"),
    "gradients.down_factors": Row("[0.1,1.0,5.0]", "all", ('model.placement=["pre","peri"]',), "gradients crossover"),
}  # fmt: skip
# Neither changes a result.
HOW = {"run.threads", "run.out"}
# A path counts by what is in the file.
FILES = {"input.path"}
# Read by their own commands alone.
ELSEWHERE = ("ladder.", "gradients.", "formats.", "train.", "first_steps.")
KINDS_OF_NUMBERS = {"predicted": r"predicted|^theory_|^finite_width$",
                    "judged": r"verdict|reason|worst|rejected|power|^contrast|_z$|_allowance$|_excess$",
                    "measured": r"_measured$|_stderr$|_per_seed$|^diverged|top_magnitudes$"}  # fmt: skip


def numbers(result):
    """The result's columns by kinds of numbers: {"measured": {name: values}, …}."""
    found = {kind: {} for kind in KINDS_OF_NUMBERS}
    for name, values in result.data().items():
        kind = next((kind for kind, names in KINDS_OF_NUMBERS.items() if re.search(names, name)), None)
        if kind:
            found[kind][name] = values
    return found


class Configuration(FolderTest):
    def hash(self, *settings, **more):
        return self.result(*settings, **more).attrs["config_sha256"]

    def result(self, *settings, command="theory", flags=()):
        return run_result(command, "--config", self.config, "--quiet", *sets(*settings), *flags)[0]

    def test_every_key_that_changes_results_changes_the_hash(self):
        keys = [k["name"] for k in json.loads(run("list", "--json").stdout)["keys"]]
        for key in keys:
            if key in HOW or key in FILES or key.startswith(ELSEWHERE) or key == "model.preset":
                continue
            with self.subTest(key=key):
                base = ROWS[key].base
                changed = self.result(*base, f"{key}={ROWS[key].value}", command="propagate")
                self.assertNotEqual(changed.attrs["config_sha256"], self.hash(*base, command="propagate"))
                if key == "model.layer_placement":
                    continue  # tables, which JSON and TOML write differently
                section, name = key.rsplit(".", 1)
                values = changed.config["stacks"][0] if section in ("model", "init", "input") else changed.config
                for part in section.split("."):
                    values = values[part]
                shown = values[name] if isinstance(values[name], str) else json.dumps(values[name])
                expected = ROWS[key].value
                self.assertTrue(shown == expected or float(shown) == float(expected), shown)

    def test_every_key_is_obeyed(self):
        listed = {k["name"] for k in json.loads(run("list", "--json").stdout)["keys"]}
        self.assertEqual(set(ROWS), listed, "a row per key")
        for name, text in (("some.txt", 32 * "abcdefgh"), ("other.txt", 32 * "hgfedcba")):
            (self.folder / name).write_text(text)
        done = {}

        def result(command, settings):
            if (command, settings) not in done:
                words = sets(*settings)
                flags = [*command.split(), "--config", self.config, "--quiet", "--set", "model.placement=peri", *words]
                done[command, settings], _ = run_result(*flags, cwd=self.folder)
            return done[command, settings]

        for key, row in ROWS.items():
            with self.subTest(key=key):
                before = result(row.command, row.base)
                after = result(row.command, (*row.base, f"{key}={row.value}"))
                if row.changes == "all":
                    self.assertTrue(before.data() != after.data(), f"{key} = {row.value} changes nothing")
                    continue
                self.check_changes(key, row, numbers(before), numbers(after))

    def check_changes(self, key, row, before, after):
        order = ["measured", "predicted", "judged"]
        first = order.index(row.changes) if row.changes in order else len(order)
        for kind in order[:first]:
            changed = [name for name, values in before[kind].items() if after[kind].get(name) != values]
            self.assertEqual((changed, set(after[kind]) - set(before[kind])), ([], set()),
                             f"{key} = {row.value} changes what is {kind}")
        if row.changes in order:
            self.assertTrue(before[row.changes] != after[row.changes],
                            f"{key} = {row.value} changes nothing that is {row.changes}")

    def threads(self, environment, *flags):
        done = run("theory", "--config", self.config, "--quiet", "--json", *flags, environment=environment)
        return Result(json.loads(done.stdout)).fact("circumstances")["threads"]

    def test_threads_are_those_of_the_environment_unless_they_are_given(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "3"}
        for flags, threads in (([], 3), (["--threads", 2], 2), (["--set", "run.threads=2"], 2), (["--threads", 0], 3)):
            with self.subTest(flags=flags):
                self.assertEqual(self.threads(environment, *flags), threads)
        environment["OMP_NUM_THREADS"] = "65536"
        self.assertEqual(self.threads(environment), 1024)

    def test_the_dynamic_loader_starts_the_program_too(self):
        """/proc/self/exe is then the loader, so the program must not execute itself again."""
        loader = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
        if not loader.exists():
            self.skipTest("another dynamic loader")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
        done = subprocess.run([loader, BINARY, "help"], capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_changes_no_result_does_not_change_the_hash(self):
        plain = self.hash()
        for settings, flags in [(["run.threads=1"], []), ([f"run.out={self.folder}"], []), ([], ["--threads", "2"])]:
            with self.subTest(settings=settings, flags=flags):
                self.assertEqual(self.hash(*settings, flags=flags), plain)
        for text, what in ((self.STACK + "[ladder]\nwidths = [1, 2]\n", "sections of other commands"),
                           (self.STACK.replace("[input]\n", '[input]\npath = "nowhere"\n'), "a key of other inputs")):
            self.config.write_text(text)
            self.assertEqual(self.hash(), plain, what)

    def test_a_text_counts_by_its_content(self):
        def of(name, text):
            """The hash with that file's name and content."""
            (self.folder / name).write_text(text)
            return self.hash("input.kind=text", f"input.path={self.folder / name}")
        self.assertEqual(of("a.txt", "abcdefgh"), of("b.txt", "abcdefgh"))
        self.assertNotEqual(of("a.txt", "abcdefgh"), of("b.txt", "abcdefgx"))

    def test_a_checkpoint_counts_by_its_content(self):
        fixture = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures" / "gemma2"

        def of(folder, command):
            result, code = run_result(*command, folder, "--tokens", "1,2,3", "--quiet")
            self.assertEqual(code, 0)
            return result.attrs["config_sha256"]

        for command in (["probe", "--no-theory"], ["certify"]):
            with self.subTest(command):
                for name in ("a", "b"):
                    shutil.copytree(fixture, self.folder / command[0] / name)
                a, b = (self.folder / command[0] / name for name in ("a", "b"))
                self.assertEqual(of(a, command), of(b, command), "the same content in another folder")
                weights = b / "model.safetensors"
                content = bytearray(weights.read_bytes())
                content[-1] ^= 1  # the sign, or a digit, of one weight
                weights.write_bytes(content)
                self.assertNotEqual(of(a, command), of(b, command), "another weight")


if __name__ == "__main__":
    unittest.main()
