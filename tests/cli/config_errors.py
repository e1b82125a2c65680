"""Every way to be wrong that a user finds: exit code and message. Usage: config_errors.py BINARY"""

import json
import os
import shutil
import subprocess
import unittest

from periscope_process import BINARY, SMALL, FolderTest, run

# (what is appended to or replaces the configuration, flags, exit code, words of the message)
SETTINGS = [
    ("model.widht=3", 2, ["unknown key model.widht", "nearest is model.width"]),
    ("modle.width=3", 2, ["unknown key modle.width", "nearest is model.width"]),
    ("width=3", 2, ["unknown key width", "nearest is model.width"]),
    ("tokes=3", 2, ["unknown key tokes", "nearest is input.tokens"]),
    ("model.placement.alhpa=3", 2, ["nearest is model.placement.alpha"]),
    ("model=3", 2, ["unknown key model:"]),
    ("model={}", 2, ["unknown key model:"]),
    ('run.out="a\\u0000b"', 2, ['run.out = "a\\u0000b"', "without the character U+0000"]),
    ('formats.format=["fp16\\u0000"]', 2, ["formats.format", "without the character U+0000"]),
    ("model.={}", 2, ["--set model.={}", "empty part"]),
    (".=1", 2, ["--set .=1", "empty part"]),
    ("model..width=1", 2, ["--set model..width=1", "empty part"]),
    ("a." * 50000 + "b=1", 2, ["--set a.a.a.", "the key has 50001 parts, expected at most 16", "(100003 bytes)"]),
    ("model.width={" + "a." * 50000 + "b=1}", 2, ["--set model.width={a.a.", "not TOML"]),
    ("model.width=" + "[" * 100000, 2, ["--set model.width=[[[", "not TOML", "bytes)"]),
    ("model.width=\x1b[2J", 2, ["model.width = ", "\\u001B[2J", "expected a whole number"]),
    ("model.width=é\x85", 2, ["model.width = ", "é\\u0085"]),
    ("model.norm=\udcff", 2, ['model.norm = "\\xff"', "rms, layer"]),
    ("\udcff=1", 2, ["unknown key \\xff"]),
    ("model.width=wide", 2, ['model.width = ', "wide", "expected a whole number"]),
    ("model.width=2.5", 2, ["model.width = 2.5", "expected a whole number"]),
    ("model.width=0", 2, ["model.width = 0", "from 1 to"]),
    ("model.width=-5", 2, ["model.width = -5", "from 1 to 1048576"]),
    ("model.width=-4", 2, ["model.width = -4", "from 1 to"]),
    ("model.width=99999999999", 2, ["model.width = 99999999999", "expected a whole number of at most 2147483647"]),
    ("train.steps=3000000000", 2, ["train.steps = 3000000000", "expected a whole number of at most 2147483647"]),
    ("train.beta1=1", 2, ["train.beta1 = 1", "0.999999"]),
    ("first_steps.chains=1", 2, ["first_steps.chains = 1", "from 2"]),
    ("first_steps.fault=noise", 2, ["first_steps.fault", "no-noise", "one-gate"]),
    ("model.heads=3", 2, ["model.heads = 3", "divisor of model.width = 32"]),
    ("model.kv_heads=3", 2, ["model.kv_heads = 3", "divisor of model.heads = 2"]),
    ("model.head_dim=7", 2, ["model.head_dim = 7", "even"]),
    ("model.mlp=swiglue", 2, ["swiglue", "relu, gelu, silu, swiglu, geglu", 'nearest is "swiglu"']),
    ("model.v_norm=head", 2, ["model.v_norm", "true or false"]),
    ("model.inner_norm=up", 2, ['model.inner_norm = "up"', "none, o, down, both"]),
    ("model.attention_gate=heads", 2, ['model.attention_gate = "heads"', "none, head, channel", 'nearest is "head"']),
    ("model.norm=batch", 2, ['model.norm = "batch"', "rms, layer, dyt, derf, l2"]),
    ("model.norm_alpha=0.0", 2, ["model.norm_alpha = 0", "above 0"]),
    ("model.norm_eps=-1.0", 2, ["model.norm_eps = -1", "at least 0"]),
    ("model.gamma=nan", 2, ["model.gamma = nan", "finite"]),
    ("model.placement=pro", 2, ["pro", "none, post, pre, peri", "nearest"]),
    ("model.placement=[]", 2, ["model.placement", "at least one value"]),
    ("model.placement={A=true,D=true}", 2, ["unknown key model.placement.D", "model.placement.A"]),
    ("model.placement={A=1}", 2, ["model.placement.A = 1", "true or false"]),
    ("model.placement=prenorm", 2, ['nearest is "pre"']),
    ('model.placement={attention="nonesuch",mlp="pre"}', 2,
     ['model.placement.attention = "nonesuch"', "none, post, pre", "nearest"]),
    ("model.placement={attention={A=true},mlp=3}", 2, ["model.placement.mlp = 3", "expected a name, or a table {A"]),
    ("model.placement={attention={A=3},mlp=3}", 2, ["model.placement.attention.A = 3", "true or false"]),
    ('model.placement={attention={attention="pre",mlp="post"},mlp="pre"}', 2,
     ["model.placement.attention = {", "expected a name, or a table {A, B, C, alpha, beta}"]),
    ('model.placement={attention="pre"}', 2, ["model.placement.attention = 'pre'", "attention and mlp"]),
    ('model.placement={attention="hybridnorm",mlp="pre"}', 2,
     ["model.placement.attention = 'hybridnorm'", "one of none, post, pre, peri",
      "as hybridnorm also sets model.qk_norm, model.v_norm for the whole stack"]),
    ('model.placement={attention="pre",mlp="deepnorm"}', 2,
     ["model.placement.mlp = 'deepnorm'", "as deepnorm also sets the initialization for the whole stack"]),
    ('model.placement={attention="pre",mlp="hyper"}', 2,
     ["model.placement.mlp = 'hyper'", "also sets the connections of its modules"]),
    ('model.placement={A=true,beta="1/sqrt(l)"}', 2,
     ['model.placement.beta = "1/sqrt(l)"', "infinite at l = 0, L = 2", "begins at 0"]),
    ('model.placement={A=true,alpha="sqrt(-L)"}', 2, ['model.placement.alpha = "sqrt(-L)"', "NaN at l = 0"]),
    ('model.placement={attention="pre",mlp={A=true,beta="1/(l-3)"}}', 2,
     ['model.placement.mlp.beta = "1/(l-3)"', "infinite at l = 3"]),
    ('model.placement={attention={alpha=inf},mlp="pre"}', 2, ["model.placement.attention.alpha = inf", "finite"]),
    ('model.placement={attention="pre"', 2,
     ['--set model.placement={attention="pre"', "not TOML", "brackets that close"]),
    ("model.placement= [1,2", 2, ["--set model.placement= [1,2", "not TOML", "brackets that close"]),
    ("init.std=[1,2]\nb=1", 2, ["--set init.std=[1,2]", "not TOML: found more than one value"]),
    ('model.placement=["pre",{name="\u0440re",A=true}]', 2, ["model.placement.name = ", "ASCII"]),
    ('model.placement={name=" pre",A=true}', 2, ["model.placement.name = ' pre'", "without a space at either end"]),
    ('model.layer_placement=[{layers="0"}]', 2, ["model.layer_placement.layers = '0'", "expected placement, qk_norm"]),
    ('model.layer_placement=[{layers="0-1",placement="post"},{layers="1",placement="pre"}]', 2,
     ['model.layer_placement.layers = "1-1"', "no other range sets the same key", '"0-1"']),
    ('model.layer_placement=[{layers="0",placement="nonesuch"}]', 2, ['model.layer_placement.placement = "nonesuch"']),
    ('model.layer_placement=[{layers="0",placement={attention="pre",mlp="nonesuch"}}]', 2,
     ['model.layer_placement.placement.mlp = "nonesuch"']),
    ('model.layer_placement=[{layers="0",placement={A=true,beta="1/sqrt(l)"}}]', 2,
     ['model.layer_placement.placement.beta = "1/sqrt(l)"', "infinite at l = 0"]),
    ('model.layer_placement=[{layers="0",placement={A=true,beta=nan}}]', 2,
     ["model.layer_placement.placement.beta = nan", "finite"]),
    ("model.placement={alpha=inf}", 2, ["model.placement.alpha = inf", "finite"]),
    ("model.causal=yes", 2, ["model.causal", "true or false"]),
    ("model.preset=7B", 2, ["7B", "400M, 1.5B, 3.2B"]),
    ("init.scheme=kaiming", 2, ["kaiming", "normal, lecun, he, xavier, scaled"]),
    ("init.std=-0.1", 2, ["init.std = -0.1", "at least 0"]),
    ("init.down_factor=-1.0", 2, ["init.down_factor = -1", "at least 0"]),
    ("init.o_factor=-1.0", 2, ["init.o_factor = -1", "at least 0"]),
    ("init.residual=1/sqrt(2M)", 2, ["init.residual = ", "1/sqrt(2M)", "a number, or an expression in L"]),
    ("init.residual=true", 2, ["init.residual = true", "a number, or an expression in L"]),
    ("init.residual=-0.5", 2, ["init.residual = -0.5", "at least 0", "at l = 0 it is -0.5"]),
    ("init.residual=1/sqrt(l)", 2, ['init.residual = "1/sqrt(l)"', "every l, from 0 on", "at l = 0 it is inf"]),
    ("init.truncation=0.01", 2, ["init.truncation = 0.01", "at least 0.1"]),
    ("init.embedding_std=0", 2, ["init.embedding_std = 0", "above 0"]),
    ("init.embedding_std=1e-200", 2, ["init.embedding_std = 1e-200", "the input would have the second moment 0"]),
    ("init.head_std=0", 2, ["init.head_std = 0", "above 0"]),
    ("init.position_std=0.01", 2, ["init.position_std = 0.01", "expected init.embedding_std or model.recipe"]),
    ("gradients.layers=[0]", 2, ["gradients.layers", "from 1 to"]),
    ("gradients.layers=[4,8,4]", 2, ["gradients.layers = [4, 8, 4]", "4 only once"]),
    ("gradients.qk_factors=[0.0,1,1.0]", 2, ["gradients.qk_factors", "1 only once"]),
    ('input.kind=["gaussian","tokens","gaussian"]', 2, ["input.kind", "gaussian is in the list twice"]),
    ('model.placement=["pre","peri","pre"]', 2, ["model.placement", "pre is in the list twice"]),
    ('model.placement=[{A=true},{A=true}]', 2, ["model.placement", 'A = true', "in the list twice"]),
    ("run.weights=sparse", 2, ["run.weights", "sparse", "auto, dense, matrix-free"]),
    ("run.threads=1025", 2, ["run.threads = 1025", "from 0 to 1024"]),
    ("run.seeds=2147483647", 2, ["run.seeds = 2147483647", "from 1 to 1000000"]),
    ("ladder.widths=[64,128,256,2147483647]", 2, ["ladder.widths", "from 1 to 1048576"]),
    ("gradients.down_factors=[1.0,wide]", 2, ["gradients.down_factors", "not TOML", "quotes around each"]),
    ("gradients.qk_factors=3", 2, ["gradients.qk_factors = 3", "a list of numbers"]),
    ("input.kind=noise", 2, ["noise", "gaussian, tokens, text"]),
    ("input.kind=3", 2, ["input.kind = 3", "gaussian, tokens, text"]),
    ("input.kind=text", 2, ["input.path", "expected a file"]),
    ("input.tokens=0", 2, ["input.tokens = 0", "from 1 to"]),
    ("input.second_moment=0.0", 2, ["input.second_moment = 0", "above 0"]),
    ("input.correlation=1.5", 2, ["input.correlation = 1.5", "from 0 to 1"]),
    ("run.seed=-1", 2, ["run.seed = -1", "at least 0"]),
    ("run.dtype=f8", 2, ["run.dtype", "f8", "f64, f32, bf16, f16"]),
    ("run.dtype=bf16", 2, ["bf16", "cpu", "f64 and f32 only"]),
    ("run.device=tpu", 2, ["run.device", "tpu", "cpu, reference, cuda or cuda-tf32"]),
    ("init.factor=-9007199254740993", 2, ["init.factor = -9.0072e+15", "at least 0"]),  # beyond 2^53
    ("train.beta1=9223372036854775807", 2, ["train.beta1 = 9.22337e+18", "0.999999"]),
    ("gradients.qk_factors=[9007199254740993, 9007199254740993]", 2, ["gradients.qk_factors", "992 only once"]),
    ("agreement.familywise_error=2.0", 2, ["agreement.familywise_error = 2", "above 0 and below 1"]),
    ("theory.tolerance=0.0", 2, ["theory.tolerance = 0", "above 0 and below 1"]),
    ("agreement.power_limit.second_moment=1000", 2, ["second_moment = 1000", "above 0 and below 1000"]),
    ("ladder.widths=[8,0]", 2, ["ladder.widths", "from 1 to"]),
    ("ladder.widths=[8,16,16]", 2, ["ladder.widths = [8, 16, 16]", "16 only once"]),
    ("ladder.widths=[-9223372036854775808]", 2, ["ladder.widths = ", "a list of whole numbers"]),
    ("=3", 2, ["--set =3", "key=value"]),
    ("model.width", 2, ["--set model.width", "key=value"]),
]

FLAGS = [
    (["--seeds", "0"], 2, ["--seeds: 0", "from 1 to"]),
    (["--seeds", "many"], 2, ["--seeds"]),
    (["--seed", "-1"], 2, ["--seed: -1", "from 0"]),
    (["--seed", "18446744073709551616"], 2, ["--seed", "from 0 to 9223372036854775807"]),
    (["--seed", "7x"], 2, ["--seed: 7x"]),
    (["--threads", "-2"], 2, ["--threads: -2", "from 0 to"]),
    (["--threads", "1025"], 2, ["run.threads = 1025"]),
    (["--threads", "many"], 2, ["--threads"]),
    (["--device", "tpu"], 2, ["run.device", "tpu"]),
    (["--dtype", "f8"], 2, ["run.dtype", "f8"]),
    (["--config", "a.toml"], 2, ["--config"]),
    (["--dtype", "f32", "--device", "reference"], 2, ["run.dtype", "f32", "f64 only"]),
    (["--dtype", "f16", "--device", "reference"], 2, ["run.dtype", "f16", "f64 only"]),
    (["--dtype", "f64", "--device", "cuda-tf32"], 2, ["run.dtype", "f64", "cuda-tf32", "f32 only"]),
    (["--sedes", "3"], 2, ["--sedes"]),
    (["--set", "input.kind=text", "--set", "input.path=no/such/file", "--set", "model.vocab=256"], 3,
     ["input.path", "no/such/file", "No such file"]),
    (["--set", "input.kind=text", "--set", "input.path=/dev/zero", "--set", "model.vocab=256"], 3,
     ["input.path", "/dev/zero"]),
    (["--set", "input.kind=text", "--set", "input.path=x", "--set", "model.vocab=100"], 2,
     ["model.vocab = 100", "at least 256"]),
    # Keys of the initialisation that exclude each other.
    (["--set", "init.residual=1/sqrt(2L)", "--set", "init.o_factor=0.5"], 2,
     ["init.o_factor = 0.5: expected 1", 'init.residual = "1/sqrt(2L)"', "set init.residual = 1"]),
    (["--set", "init.residual=0.5", "--set", "init.down_factor=0.5"], 2,
     ["init.down_factor = 0.5: expected 1", "init.residual = 0.5"]),
    (["--set", "model.recipe=gpt2", "--set", "init.scheme=normal", "--set", "init.down_factor=0.5"], 2,
     ["init.down_factor = 0.5: expected 1", 'init.residual = "1/sqrt(2L)"']),
    (["--set", "init.scheme=mitchell", "--set", "init.residual=0.5"], 2,
     ['init.scheme = "mitchell"', "set init.residual = 1"]),
    (["--set", "init.embedding_std=0.02", "--set", "input.second_moment=1"], 2,
     ["input.second_moment = 1: expected 0.0004", "init.embedding_std = 0.02 has it; give one of them"]),
    (["--set", "init.embedding_std=0.02", "--set", "input.second_moment=4e-4", "--set", "init.truncation=2"], 2,
     ["input.second_moment = 0.0004: expected 0.000309", "init.embedding_std = 0.02, init.truncation = 2 has it"]),
    (["--set", "init.embedding_std=0.02", "--set", "input.second_moment=4e-4", "--set", "init.scheme=mitchell"], 2,
     ["expected 0.000389", 'init.scheme = "mitchell" (init.truncation = 3) has it']),
    (["--set", "init.head_std=0.1", "--set", "model.unembedding=false"], 2,
     ["init.head_std acts only with model.unembedding = true"]),
]


class ConfigErrors(FolderTest):
    def check(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr

    def test_settings(self):
        for setting, code, words in SETTINGS:
            with self.subTest(setting=setting):
                command = "propagate" if setting.startswith("run.") else "theory"
                message = self.check(run(command, "--config", self.config, "--set", setting), code, words)
                self.assertEqual(message.count("\n"), 1, "one line")

    def test_flags(self):
        for flags, code, words in FLAGS:
            with self.subTest(flags=flags):
                self.check(run("propagate", "--config", self.config, *flags), code, words)

    def test_initial_weights_beyond_the_storage_type(self):
        tokens, normal = ["model.vocab=256", "input.kind=tokens"], "init.scheme=normal"
        for words, settings, message in (
            (["certify"], [*tokens, "init.head_std=1e38"],
             "init.head_std = 1e+38: expected initial weights that f32 can hold"),
            (["formats"], [*tokens, "init.head_std=1e308"],
             "init.head_std = 1e+308: expected initial weights that f64 can hold"),
            (["theory"], [normal, "init.std=1e308"], "init.std = 1e+308"),
            (["propagate"], [normal, "init.std=1e3", "init.down_factor=1e35"],
             "init.down_factor = 1e+35: expected initial weights that f32 can hold; the standard deviation of "
             "layers.0.mlp.down.weight = 1e+38, at most 5.4e+37"),
            (["propagate"], ["init.o_factor=1e40"], "init.o_factor = 1e+40"),
            (["propagate"], ["init.qk_factor=1e40"], "init.qk_factor = 1e+40"),
            (["propagate"], ["init.residual=1e50*L"], 'init.residual = "1e50*L"'),
            (["propagate"], ["init.scheme=scaled", "init.factor=1e80"], "init.factor = 1e+80"),
            (["propagate"], ["model.gamma=-1e39"], "model.gamma = -1e+39"),
            (["propagate"], ["input.second_moment=1e80"], "input.second_moment = 1e+80"),
            (["write-checkpoint", "--family", "llama", "--out", self.folder / "x"], ["init.embedding_std=1e40"],
             "init.embedding_std = 1e+40"),
            (["write-checkpoint", "--family", "gpt2", "--out", self.folder / "x"], ["init.position_std=1e40"],
             "init.position_std = 1e+40"),
        ):  # fmt: skip
            with self.subTest(settings):
                config = [] if "--family" in words else ["--config", self.config]
                done = run(*words, *config, *(w for s in settings for w in ("--set", s)))
                self.check(done, 2, [message])
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.folder / "x").exists())
        done = run("propagate", "--config", self.config, "--set", "init.o_factor=1e40", "--dtype", "f64", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_device_that_is_not_there(self):
        """Built without CUDA: a configuration that cannot be. Built with it, where there is no GPU: a failure."""
        for device in ("cuda", "cuda-tf32"):
            done = run("propagate", "--config", self.config, "--device", device)
            if done.returncode != 0:
                absent = "this build has no CUDA backend" in done.stderr
                self.check(done, 2 if absent else 1, [f'device = "{device}"' if absent else 'device = "cuda"'])
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_what_theory_is_told(self):
        for setting, words in (("modle.x=1", ["--theory-set modle.x=1", "nearest is model."]),
                               ("run.seed=1", ["a key of model, init, input or theory"]),
                               ("model.widht=3", ["nearest is model.width"]),
                               ("model.=1", ["--theory-set", "empty part"]),
                               # How precisely theory is computed is no other theory: nothing is confronted.
                               ("theory.tolerance=0.02",
                                ["--theory-set theory.tolerance=0.02", "a key of the stack, or theory.fault"])):
            with self.subTest(setting=setting):
                self.check(run("propagate", "--config", self.config, "--theory-set", setting), 2, words)

    def test_what_is_said_of_what_theory_is_told(self):
        for setting, said, not_said in (("theory.fault=beta0", "PLANTED FAULT", "THEORY WAS TOLD"),
                                        ("init.down_factor=2", "THEORY WAS TOLD: init.down_factor = 2", "FAULT")):
            with self.subTest(setting=setting):
                message = run("propagate", "--config", self.config, "--theory-set", setting).stderr
                self.assertIn(said, message)
                self.assertNotIn(not_said, message)

    def test_the_last_of_a_key_wins(self):
        done = run("theory", "--config", self.config, "--quiet", "--json", "--set", "model.layers=5",
                   "--set", "model.layers=3")
        self.assertEqual(json.loads(json.loads(done.stdout)["attrs"]["config"])["stacks"][0]["model"]["layers"], 3)

    def test_commands(self):
        for words, found in ((["propogate"], ["propogate", "nearest is propagate"]),
                             (["gradients", "dept"], ["gradients dept", "nearest is gradients depth"]),
                             (["x\x1b[2J"], ["x\\x1b[2J"])):
            with self.subTest(words=words):
                message = self.check(run(*words), 2, found)
                self.assertEqual(message.count("\n"), 1, "one line")
        for command in ("theory", "verify"):
            self.check(run(command, "--set", "modle.x=1"), 2, ["unknown key modle.x"])

    def test_one_place_takes_one_word(self):
        for command in ("probe", "generate", "info"):
            with self.subTest(command=command):
                self.check(run(command, "one", "two"), 2, ["checkpoint" if command != "info" else "two"])

    def test_a_list_of_the_project_that_cannot_be_read(self):
        """power looks for its own list in the working folder first: one that leads nowhere is none."""
        place = self.folder / "experiments" / "configs"
        place.mkdir(parents=True)
        (place / "power.toml").symlink_to("power.toml")
        copy = self.folder / "bin" / "periscope"
        copy.parent.mkdir()
        shutil.copy2(BINARY, copy)
        done = subprocess.run([str(copy), "power"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.check(done, 2, ["--config", "power.toml", "neither in the working directory nor beside"])

    def test_numbers_of_flags(self):
        """CLI11 writes the limits of its own checks with 300 digits."""
        for command, flag in ((("certify",), "--length"), (("certify",), "--max-tokens"), (("certify",), "--attack"),
                              (("probe", "x"), "--top"), (("generate", "x"), "--count")):
            for value in ("0", "-3", "2147483648", "nan", "1e3"):
                with self.subTest(command=command, flag=flag, value=value):
                    message = self.check(run(*command, flag, value), 2, [flag, value, "from 1 to"])
                    self.assertLess(len(message), 200)
        # As CLI11 reads numbers, 010 would be 8.
        for flag in ("--seeds", "--threads"):
            for value in ("010", "0x10", "1e2", "-1", " 4", "99999999999"):
                with self.subTest(flag=flag, value=value):
                    self.check(run("theory", "--config", self.config, flag, value), 2, [flag, value, "a whole number"])
        self.check(run("certify", "--attack", 1_000_001), 2, ["--attack", "from 1 to 1000000"])
        for value in ("nan", "inf", "-inf", "-1", "0", "1e400"):
            with self.subTest(input_maximum=value):
                self.check(run("certify", "--config", self.config, "--set", "model.placement=pre",
                               "--input-maximum", value),
                           2, ["--input-maximum"])

    def test_an_empty_value_is_none(self):
        """A variable of a shell that was not set."""
        for words in (("propagate", "--out"), ("propagate", "--dump"), ("propagate", "--config"),
                      ("propagate", "--set"),
                      ("propagate", "--seed"), ("propagate", "--seeds"), ("propagate", "--threads"),
                      ("propagate", "--dtype"), ("verify", "--replay"), ("certify", "--headroom"),
                      ("certify", "--input-maximum"), ("probe", "x", "--tokenizer"), ("probe", "x", "--tokens"),
                      ("propagate", "--csv"), ("gradients", "depth", "--out"), ("write-checkpoint", "--family"),
                      ("info",)):
            with self.subTest(words=words):
                message = self.check(run(*words, ""), 2, [words[-1] if len(words) > 1 else "folder", "expected"])
                self.assertLess(message.count("\n"), 3)

    def test_all_stacks_are_trained_on_the_same_batches(self):
        for key, values in (("input.tokens", "[4,8]"), ("model.vocab", "[256,300]"),
                            ("model.unembedding", "[true,false]"), ("model.causal", "[true,false]")):
            with self.subTest(key=key):
                self.check(run("train", "--config", self.config, "--set", "input.kind=tokens", "--set",
                               "model.placement=pre", "--vary", f"{key}={values}"),
                           2, [f"{key}: ", "expected one value, as all stacks are trained on the same batches"])

    def test_a_placement_in_a_file_that_is_not_known(self):
        self.config.write_text('[model]\nplacement = {attention = "nonesuch", mlp = "pre"}\n')
        self.check(run("theory", "--config", self.config), 2,
                   [f'{self.config}:2: model.placement.attention = "nonesuch"'])

    def test_what_is_known_at_the_start(self):
        out = self.folder / "out"
        one_input = ["--set", "model.placement=pre", "--set", "input.kind=tokens"]
        for words, found in ((["certify", *one_input, "--headroom", "typo"],
                              ["--headroom typo: expected one of", "fp16"]),
                             (["certify", *one_input, "--format", "fp12"], ["--format fp12: expected one of", "fp16"]),
                             (["certify", *one_input, "--format", "fp16,bf16,fp16"],
                              ["--format: fp16 is in the list twice"]),
                             (["certify", *one_input, "--require", "mlp:fp12"], ["--require fp12: expected one of"]),
                             (["formats", *one_input, "--set", 'formats.format=["fp16","fp16"]'],
                              ["formats.format: fp16 is in the list twice"]),
                             (["train", "--set", "input.kind=text"],
                              ["input.kind = ", "text", "train.corpus or --corpus"]),
                             (["train", "--set", 'input.kind=["tokens","text"]'],
                              ["input.kind = ", "train.corpus or --corpus"]),
                             (["certify", "--set", "model.placement=pre", "--set", "model.norm=derf", "--set",
                               "input.kind=tokens", "--headroom", "fp16"], ["--headroom", 'model.norm = "derf"']),
                             (["certify", "--set", "model.placement=pre", "--input-maximum", "1", "--headroom", "fp16"],
                              ["--headroom", "token input"]),
                             (["gradients", "attenuation", "--set", "model.layers=1"],
                              ["model.layers = 1", "at least 2"]),
                             (["gradients", "crossover", "--set", "model.placement=pre"],
                              ["model.placement", "beside"])):
            with self.subTest(words=words):
                message = self.check(run(*words, "--config", self.config, "--out", out), 2, found)
                self.assertEqual(message.count("\n"), 1, "nothing was begun")

    def test_the_file_and_line_are_named(self):
        self.config.write_text(SMALL.replace("heads = 2\nkv", "heads = 2\nhaeds = 3\nkv"))
        self.check(run("theory", "--config", self.config), 2, [f"{self.config}:6: unknown key model.haeds"])

    def test_broken_toml(self):
        self.config.write_text("[model\nwidth = 3\n")
        self.check(run("theory", "--config", self.config), 2, [f"{self.config}:1", "not TOML"])

    def test_missing_configuration(self):
        self.check(run("theory", "--config", "no/such/config.toml"), 2, ["no/such/config.toml", "no such file"])

    def test_what_is_no_configuration_file(self):
        loop = self.folder / "loop.toml"
        loop.symlink_to(loop)
        fifo = self.folder / "fifo.toml"
        os.mkfifo(fifo)
        large = self.folder / "large.toml"
        large.write_text("#" * (1 << 20) + "\n")
        deep = self.folder / "deep.toml"
        nested = self.folder / "nested.toml"
        nested.write_text("a = " + "[" * 100000)
        for name, words in ((".", ["--config .: is a folder, expected a TOML file"]),
                            (loop, [str(loop), "symbolic links"]), (fifo, [str(fifo), "is no regular file"]),
                            ("/dev/null", ["is no regular file"]), ("x" * 5000, ["ame too long", "(5000 bytes)"]),
                            (self.config / "x", ["small.toml/x"]), ("a\x1b[2J", ["a\\x1b[2J", "no such file"]),
                            (large, ["more than 1048576 bytes"]), (nested, ["nested.toml:1", "not TOML"])):
            with self.subTest(name=str(name)[:40]):
                message = self.check(run("theory", "--config", name), 2, words)
                self.assertNotIn("filesystem error", message)
                self.assertEqual(message.count("\n"), 1, "one line")
        for text in ("a." * 100000 + "b = 1", "[" + "a." * 100000 + "b]", "x = {" + "a . " * 100000 + "b = 1}"):
            deep.write_text("\n" + text)
            with self.subTest(text=text[:10]):
                self.check(run("theory", "--config", deep), 2, ["deep.toml:2", "parts"])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_configuration_that_may_not_be_read(self):
        self.config.chmod(0)
        self.check(run("theory", "--config", self.config), 2, [str(self.config), "ermission denied"])

    def test_no_command(self):
        self.check(run(), 2, ["periscope help", "propagate"])

    def test_text_shorter_than_the_tokens(self):
        text = self.folder / "short.txt"
        text.write_text("abcdef")
        self.check(run("theory", "--config", self.config, "--set", "input.kind=text", "--set", f"input.path={text}"),
                   3, [str(text), "6 bytes could be read", "need 7"])

    def test_widths_that_split_a_head(self):
        self.check(run("ladder", "--config", self.config, "--set", "ladder.widths=[32,64,64]"), 2,
                   ["ladder.widths", "64 only once"])
        self.check(run("ladder", "--config", self.config, "--set", "ladder.widths=[32,128,64,256]"), 2,
                   ["ladder.widths", "grow"])
        self.check(run("ladder", "--config", self.config, "--set", "ladder.widths=[16,32,48,64]"), 2,
                   ["ladder.widths", "width 16", "kv_heads"])

    def test_verify(self):
        case = self.folder / "case.json"
        for flags, code, words in [
                (["--cases", 0], 2, ["--cases", "0: expected", "from 1 to"]),
                (["--cases", "many"], 2, ["--cases"]),
                (["--scale", 0], 2, ["--scale 0", "above 0"]),
                (["--scale", "nan"], 2, ["--scale nan", "up to 1"]),
                (["--scale", 1.5], 2, ["--scale 1.5", "up to 1"]),
                (["--replay", "0:17"], 2, ["--replay 0:17", "a JSON file with a case"]),
                (["--replay", "no/such.json"], 2, ["no/such.json", "a JSON file with a case"]),
                (["--replay", self.config], 3, [str(self.config), "not JSON"]),
        ]:
            with self.subTest(flags=flags):
                self.check(run("verify", *flags), code, words)
        good = {"norm": [[0]], "norm_eps": [[0]], "mlp": [[0]], "alpha": [[1]], "beta": [[1]], "labels": [[1]],
                "x": [[0, -1]], "up": [[0, -1]], "down": [[1], [1]], "norm_b.gain": [[1], [1]]}
        case.write_text(json.dumps(good))
        self.assertEqual(run("verify", "--replay", case).returncode, 0)
        rows = "rows of numbers, all of one length"
        for key, value, words in [("labels", [[2]], ["labels", "0 to 1"]), ("labels", [[0.5]], ["labels", "whole"]),
                                  ("labels", [[0], [0]], ["labels", "1 rows of 1 numbers, not 2 of 1"]),
                                  ("labels", [[-1]], ["labels", "at least 0"]), ("labels", [], ["labels", rows]),
                                  ("labels", [[True]], ["labels", rows]), ("alpha", [["one"]], ["alpha", rows]),
                                  ("alpha", 1, ["alpha", rows]), ("x", [[0, 1], [1]], ["x", rows]),
                                  ("x", [[True, -1]], ["x", rows]), ("x", [[]], ["x", rows]),
                                  ("up", [[0]], ["up", "1 rows of 2 numbers, not 1 of 1"]),
                                  ("down", [[1]], ["down", "2 rows of 1 numbers"]), ("norm", [[7]], ["norm", "0 to 1"]),
                                  ("norm_eps", [[-1]], ["norm_eps", "at least 0"]),
                                  ("mlp", [[3]], ["gate", "this parameter", "mlp"]),
                                  ("gate", [[1, 1]], ["gate", "none", "mlp"]),
                                  ("down_bias", [[1]], ["down_bias", "2 rows of 1 numbers, not 1 of 1"]),
                                  ("norm_a.bias", [[1], [1]], ["norm_a.bias", "none without norm_a.gain"]),
                                  ("lables", [[1]], ["lables", "no such parameter"]),
                                  ("x", [[1e308, -1e308]], ["leaves the range of f64", "no bound can be judged"])]:
            with self.subTest(key=key, value=value):
                case.write_text(json.dumps({**good, key: value}))
                message = self.check(run("verify", "--replay", case), 3, [str(case), *words])
                self.assertEqual(message.count("\n"), 1, "one line")
        case.write_text(json.dumps({**good, "up": [[0, 0]]}))  # no activation: 0 of a bound of 0
        table = self.check(run("verify", "--replay", case), 0, ["holds"])
        self.assertNotIn("nan", table)
        case.write_text("[]")
        self.check(run("verify", "--replay", case), 3, [str(case), "JSON object"])
        del good["beta"]
        case.write_text(json.dumps(good))
        self.check(run("verify", "--replay", case), 3, [str(case), "beta", "this parameter"])

    def test_csv(self):
        stack = ["theory", "--config", self.config]
        self.check(run(*stack, "--csv", "-", "--json"), 2, ["--csv - with --json"])
        self.check(run(*stack, "--csv", self.config), 2, [str(self.config), "no CSV", "--force"])

    def test_results_that_cannot_be_written(self):
        blocker = self.folder / "file"
        blocker.write_text("")
        done = run("theory", "--config", self.config, "--out", blocker / "sub", environment=dict(os.environ))
        self.check(done, 2, ["cannot write", str(blocker), "expected a folder"])
        nowhere = self.folder / "nowhere"
        nowhere.symlink_to("no/such/folder")
        for out in (nowhere, nowhere / "sub"):
            self.check(run("theory", "--config", self.config, "--out", out), 2,
                       ["cannot write", f"{nowhere}: expected a folder, found a symbolic link to nothing"])


if __name__ == "__main__":
    unittest.main()
