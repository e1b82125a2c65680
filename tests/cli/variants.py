"""Lists for every key, --vary, names of stacks, recipes, and what results say of them. Usage: variants.py BINARY"""

import json
import unittest

from periscope_process import FolderTest, run, run_result, sets

STACK = """
[model]
layers = 2
width = 32
heads = 2
mlp_width = 48
[init]
scheme = "lecun"
[input]
tokens = 6
[run]
seeds = 4
"""


def vary(*lists):
    return [word for one in lists for word in ("--vary", one)]


class Variants(FolderTest):
    STACK = STACK

    def result(self, *flags, command="propagate"):
        return run_result(*command.split(), "--config", self.config, "--quiet", *flags)[0]

    def labels(self, *flags, command="theory"):
        return self.result(*flags, command=command)["placement"]

    def refused(self, flags, *words, command="theory"):
        done = run(*command.split(), "--config", self.config, "--quiet", *flags)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_the_cross_product_in_the_order_given(self):
        self.assertEqual(
            self.labels(*vary('model.qk_norm=["none","full"]', 'model.placement=["pre","peri"]')),
            ["pre, qk_norm none", "peri, qk_norm none", "pre, qk_norm full", "peri, qk_norm full"],
        )
        self.config.write_text(STACK.replace("[init]", 'placement = ["pre", "peri"]\nnorm = ["rms", "layer"]\n[init]'))
        self.assertEqual(
            self.labels(*vary("init.qk_factor=[1.0,0.5]")),
            [f"{p}, norm {n}, qk_factor {q}" for p in ("pre", "peri") for n in ("rms", "layer") for q in ("1", "0.5")],
        )
        self.assertEqual(self.labels(*sets("model.norm=rms")), ["pre", "peri"])
        self.assertEqual(self.labels(*sets('model.norm=["rms"]', "model.placement=post")), ["post"])

    def test_a_variant_is_the_stack_that_one_value_of_each_key_makes(self):
        varied = self.result(
            *vary('model.qk_norm=["none","full"]', "model.norm_eps=[1e-6,1e-2]", 'input.kind=["gaussian","tokens"]')
        )
        stacks = iter(varied.stacks())
        for kind in ("gaussian", "tokens"):
            for qk_norm in ("none", "full"):
                for eps in ("1e-6", "1e-2"):
                    one, = self.result(
                        *sets(f"model.qk_norm={qk_norm}", f"model.norm_eps={eps}", f"input.kind={kind}")
                    ).stacks()
                    stack = next(stacks)
                    self.assertEqual(stack["input"], kind)
                    for name in ("variance_measured", "variance_predicted"):
                        self.assertEqual(stack[name], one[name])
        with self.assertRaises(StopIteration):
            next(stacks)

    def test_lists_of_placements_alone_are_what_they_were(self):
        by_list = self.result(*sets('model.placement=["pre","peri"]'))
        by_flag = self.result(*vary('model.placement=["pre","peri"]'))
        self.assertEqual(by_list.data(), by_flag.data())
        self.assertEqual(by_list.attrs["config_sha256"], by_flag.attrs["config_sha256"])

    def test_what_cannot_vary(self):
        self.refused(vary("model.layers=[2,3]"), "model.layers", "2 and 3", "share one axis")
        self.refused(vary("run.seeds=[4,8]"), "--vary run.seeds", "a key of model, init or input")
        self.refused(sets("run.seeds=[4,8]"), "run.seeds = ", "only keys of model, init and input take lists")
        self.assertNotIn("nearest", run("theory", *vary("run.seeds=[4,8]")).stderr)
        self.refused(vary("model.width=32"), "--vary model.width=32", "expected a list")
        self.refused(vary("model.recipe=[llama,olmo2]"), "[llama,olmo2]: not TOML", "quotes around each text")
        self.refused(vary("model.width=[32,64"), "[32,64: not TOML", "brackets that close")
        self.refused(vary("model.recipe= [llama,olmo2]"), "not TOML", "quotes around each text")
        self.refused(vary("model.widht=[32,64]"), "unknown key model.widht", "nearest is model.width")
        self.refused(sets("model.qk_norm=[]"), "model.qk_norm", "at least one value")
        self.refused(sets('model.qk_norm=["full","full"]'), "model.qk_norm", "full is in the list twice")
        self.refused(sets("model.qk_norm=[1,2]"), "model.qk_norm = 1", "a string")
        self.refused(vary('model.recipe=["llama","mistral"]'), '"llama" and "mistral" make the same stack')
        self.refused(sets('model.placement=["residual","residual-dual"]'), "model.placement", "make the same stack")
        self.refused(
            vary(
                "init.std=[" + ",".join(f"1.{i:02}" for i in range(41)) + "]",
                "init.factor=[" + ",".join(f"1.{i:02}" for i in range(41)) + "]",
            ),
            "1681 combinations",
            "1000",
        )

    def test_studies_that_hold_one_stack_or_pair_stacks(self):
        two = vary('model.qk_norm=["none","full"]')
        self.refused([*two, "--dump", self.folder / "dump"], "--dump", "not 2 stacks", command="propagate")
        self.refused(two, "expected one stack", "not 2 stacks", command="certify")
        self.refused(
            [*two, *sets('model.placement=["pre","peri"]')], "two stacks of placement", command="gradients crossover"
        )
        self.refused([*two, "--corpus", "synthetic"], "a key has a list", command="reproduce")
        self.refused([*vary("input.tokens=[6,8]"), "--corpus", "synthetic"], "input.tokens: 6 and 8", command="train")
        self.refused(
            [*two, "--family", "llama", "--out", self.folder / "x"], "not 2 stacks", command="write-checkpoint"
        )

    def test_every_study_of_stacks_takes_them(self):
        lists = vary('model.qk_norm=["none","full"]')
        labels = {"pre, qk_norm none", "pre, qk_norm full"}
        self.config.write_text(
            STACK
            + "[ladder]\nwidths = [32, 64, 96, 128]\nseeds = 8\n"
            + '[formats]\nformat = ["bf16"]\ncertificates = false\n'
            + "[gradients]\nlayers = [1, 2, 4]\nqk_factors = [1.0]\n[train]\nsteps = 2\nbatch = 2\n"
        )
        short = sets("model.vocab=256", "model.placement=pre")
        for command, flags in (
            ("ladder", ()),
            ("formats", ()),
            ("gradients depth", ()),
            ("gradients identity-path", ()),
            ("gradients score-path", ()),
            ("gradients attenuation", ()),
            ("train", ("--corpus", "synthetic")),
        ):
            with self.subTest(command=command):
                result = self.result(*short, *lists, *flags, command=command)
                name = next(n for n in ("placement", "stack_placement") if n in result)
                self.assertLessEqual(labels, set(result[name]))

    def test_twins_have_the_same_weights(self):
        """A key that leaves shapes alike leaves the random numbers alike: the first loss differs by the norm alone."""
        flags = [
            "--corpus",
            "synthetic",
            *sets("train.steps=1", "train.batch=2", "model.vocab=256", "model.placement=pre"),
        ]
        varied = self.result(*flags, *vary("model.norm_eps=[1e-6,1e-2]"), command="train")["loss"]
        for place, eps in enumerate(("1e-6", "1e-2")):
            alone = self.result(*flags, *sets(f"model.norm_eps={eps}"), command="train")["loss"]
            self.assertEqual([varied[place]], alone)

    def test_names_of_free_placements(self):
        tables = '[{name = "mine", A = true}, {name = "theirs", A = true, B = true}, {C = true}]'
        labels = self.labels(*sets(f"model.placement={tables}"))
        self.assertEqual(labels[:2], ["mine", "theirs"])
        self.assertTrue(json.loads(labels[2])["C"])
        named = "model.placement=[{name = 'mine', A = true}, {name = 'theirs', A = true, B = true}]"
        table = run("theory", "--config", self.config, *sets(named))
        self.assertIn("mine", table.stdout + table.stderr)
        self.assertNotIn("custom", table.stdout + table.stderr)
        same = self.result(*sets("model.placement={name='mine',A=true}"), command="theory")
        plain = self.result(*sets("model.placement={A=true}"), command="theory")
        self.assertEqual(same.attrs["config_sha256"], plain.attrs["config_sha256"])
        self.assertEqual(same.config["stacks"][0]["model"]["placement"]["name"], "mine")
        self.refused(sets("model.placement={name='peri',A=true}"), "model.placement.name", "no placement has yet")
        self.refused(sets("model.placement={name='',A=true}"), "model.placement.name", "1 to 40")
        self.refused(sets("model.placement=[{name='a',A=true},{name='b',A=true}]"), '"a" and "b" make the same stack')
        self.refused(sets("model.placement=[{name='a',A=true},{name='a',B=true}]"), "a is in the list twice")

    def test_theory_is_told_otherwise_of_variants(self):
        lists = vary('model.qk_norm=["none","full"]')
        told = self.result(*lists, "--theory-set", "model.qk_norm=none").stacks()
        truth = self.result(*lists).stacks()
        alone = self.result(*sets("model.qk_norm=full"), "--theory-set", "model.qk_norm=none").stacks()
        self.assertEqual(told[0]["variance_predicted"], truth[0]["variance_predicted"])
        for stack, as_measured in zip(told, truth, strict=True):
            self.assertEqual(stack["variance_measured"], as_measured["variance_measured"])
        self.assertEqual(told[1]["variance_predicted"], alone[0]["variance_predicted"])
        swapped = self.result(*lists, "--theory-set", 'model.qk_norm=["full","none"]').stacks()
        self.assertEqual(swapped[0]["variance_measured"], truth[0]["variance_measured"])
        self.refused(
            [*lists, "--theory-set", 'model.qk_norm=["full","none","head"]'],
            "3 values",
            "or 2 as measured",
            command="propagate",
        )
        self.refused(["--theory-set", 'model.qk_norm=["full","none"]'], "2 values", "expected one", command="propagate")

    def test_results_say_how_stacks_differ_and_what_is_unusual(self):
        result = self.result(
            *vary('model.qk_norm=["none","full"]', 'model.placement=["pre","b-only"]'), *sets("model.vocab=64")
        )
        self.assertEqual(
            [json.loads(s) for s in result["placement_settings"]],
            [{"model.placement": p, "model.qk_norm": q} for q in ("none", "full") for p in ("pre", "b-only")],
        )
        unusual = result.fact("config_differences")
        self.assertEqual(unusual["model.vocab"], 64)
        self.assertEqual(unusual["init.scheme"], "lecun")
        self.assertEqual(unusual["run.seeds"], 4)
        for usual in (
            "model.qk_norm",
            "model.placement",
            "model.kv_heads",
            "model.final_norm",
            "run.weights",
            "model.norm",
        ):
            self.assertNotIn(usual, unusual)
        alone = self.result(*sets("model.placement=pre"))
        self.assertNotIn("placement_settings", alone)
        self.assertEqual(alone.fact("config_differences")["model.placement"], "pre")


# Of the families' papers and configurations, typed once more.
KINDS = {
    "olmo2": {
        "model.placement": "b-only",
        "model.qk_norm": "full",
        "model.norm_eps": 1e-5,
        "input.second_moment": 4e-4,
    },
    "llama": {"model.placement": "pre", "model.qk_norm": "none", "model.mlp": "swiglu", "input.second_moment": 4e-4},
    "gemma2": {"model.placement": "peri", "model.mlp": "geglu_tanh", "input.second_moment": 4e-4 * 32},
    "gemma3": {"model.placement": "peri", "model.qk_norm": "head", "input.second_moment": 4e-4 * 32},
    "qwen3": {"model.placement": "pre", "model.qk_norm": "head"},
    "gpt2": {
        "model.placement": "pre",
        "model.norm": "layer",
        "model.rope": False,
        "model.mlp": "gelu_tanh",
        "input.second_moment": 8e-4,
        "init.residual": "1/sqrt(2L)",
    },
    "bert": {
        "model.placement": "post",
        "model.norm": "layer",
        "model.norm_eps": 1e-12,
        "model.causal": False,
        "model.embedding_norm": True,
        "model.final_norm": False,
        "input.second_moment": 12e-4,
    },
    "opt": {"model.placement": "pre", "model.mlp": "relu", "model.norm": "layer"},
}


class Recipes(FolderTest):
    STACK = STACK.replace('[init]\nscheme = "lecun"\n', "")

    def stack(self, *settings):
        result, _ = run_result("theory", "--config", self.config, "--quiet", *sets(*settings))
        return result.config["stacks"][0], result

    def test_a_recipe_sets_the_kind(self):
        for recipe, kind in KINDS.items():
            stack, _ = self.stack(f"model.recipe={recipe}")
            self.assertEqual(stack["model"]["recipe"], recipe)
            self.assertEqual(
                (stack["init"]["scheme"], stack["init"]["std"], stack["model"]["width"]), ("normal", 0.02, 32)
            )
            self.assertEqual(stack["init"]["residual"], kind.get("init.residual", 1.0), recipe)
            for key, value in kind.items():
                section, name = key.split(".")
                with self.subTest(recipe=recipe, key=key):
                    if isinstance(value, float):
                        self.assertAlmostEqual(stack[section][name] / value, 1.0, delta=1e-6)
                    else:
                        self.assertEqual(stack[section][name], value)

    def test_explicit_keys_win_in_any_order(self):
        for settings in (("model.recipe=olmo2", "model.qk_norm=none"), ("model.qk_norm=none", "model.recipe=olmo2")):
            self.assertEqual(self.stack(*settings)[0]["model"]["qk_norm"], "none")
        stack, _ = self.stack("model.recipe=bert", "model.placement=pre", "input.second_moment=2", "init.scheme=he")
        self.assertEqual(
            (stack["model"]["final_norm"], stack["input"]["second_moment"], stack["init"]["scheme"]), (True, 2.0, "he")
        )
        stack, _ = self.stack("model.recipe=gemma2", "model.preset=400M")
        self.assertEqual(stack["model"]["width"], 32)  # the file's
        self.assertEqual(stack["model"]["placement"], "peri")

    def test_a_recipes_embeddings_follow_its_std(self):
        own, smaller = (
            self.stack("model.recipe=gemma2", *std)[0]["input"]["second_moment"] for std in ((), ("init.std=0.005",))
        )
        self.assertAlmostEqual(smaller / own, 1 / 16, delta=1e-9)
        stack, _ = self.stack("model.recipe=gemma2", "init.std=0.005", "input.second_moment=2")
        self.assertEqual(stack["input"]["second_moment"], 2.0)
        for std in ("0", "1e300"):
            done = run("theory", "--config", self.config, *sets("model.recipe=gemma2", f"init.std={std}"))
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"^periscope: init\.std = \S+: the embeddings .* or input\.second_moment\n$")
        self.assertEqual(self.stack("model.recipe=gemma2", "init.std=0", "input.second_moment=2")[0]["init"]["std"], 0)

    def test_embeddings_and_positions_of_their_own_std(self):
        for recipe, settings, moment in (
            ("gpt2", ("init.position_std=0.01",), 0.02**2 + 0.01**2),
            ("gpt2", ("init.embedding_std=0.04",), 2 * 0.04**2),  # positions follow
            ("gpt2", ("init.embedding_std=0.04", "init.position_std=0.01"), 0.04**2 + 0.01**2),
            ("gpt2", ("init.position_std=0.01", "init.std=0.03"), 0.03**2 + 0.01**2),
            ("gemma2", ("init.embedding_std=0.01",), 32 * 0.01**2),
            ("llama", ("init.truncation=1",), 4e-4 * 0.2911250947),
            ("llama", ("init.scheme=mitchell",), 4e-4 * 0.9733369246),  # truncated at 3
            ("llama", ("init.embedding_std=0.1", "init.truncation=1"), 1e-2 * 0.2911250947),
        ):
            with self.subTest(recipe=recipe, settings=settings):
                stack, result = self.stack(f"model.recipe={recipe}", *settings)
                self.assertAlmostEqual(stack["input"]["second_moment"] / moment, 1.0, delta=1e-6)
                # The resolved configuration can be run again.
                again, _ = self.stack(
                    f"model.recipe={recipe}", *settings, f"input.second_moment={stack['input']['second_moment']!r}"
                )
                self.assertEqual(again, stack)
        plain, _ = self.stack("init.embedding_std=0.02", "init.position_std=0.01")
        self.assertAlmostEqual(plain["input"]["second_moment"], 5e-4, delta=1e-15)

    def test_a_recipe_is_what_its_keys_make(self):
        """By the numbers and the hash: which way a stack was asked for does not count."""
        keys = ("model.placement=b-only", "model.qk_norm=full", "model.norm_eps=1e-5", "input.second_moment=4e-4")
        recipe, keyed = self.stack("model.recipe=olmo2")[1], self.stack(*keys)[1]
        self.assertEqual(recipe.attrs["config_sha256"], keyed.attrs["config_sha256"])
        self.assertEqual(recipe.data(), keyed.data())

    def test_unknown_recipes_are_refused(self):
        done = run("theory", *sets("model.recipe=olmo3"))
        self.assertEqual(done.returncode, 2)
        self.assertIn('model.recipe = "olmo3": expected one of llama', done.stderr)
        self.assertIn('nearest is "olmo2"', done.stderr)
        self.assertEqual(run("theory", *sets("model.recipe=gpt2", "model.width=1", "model.heads=1")).returncode, 2)

    def test_recipes_vary_and_theory_is_told_another(self):
        flags = ["--config", self.config, "--quiet"]
        result, _ = run_result("propagate", *flags, *vary('model.recipe=["olmo2","gemma2"]'))
        self.assertEqual(result["placement"], ["olmo2", "gemma2"])
        told, code = run_result(
            "propagate",
            *flags,
            *sets("model.recipe=olmo2", "run.backward=true"),
            "--theory-set",
            "model.recipe=llama",
        )
        self.assertEqual(code, 4)
        differences = told.fact("theory_told")["differences"][0]
        self.assertEqual(differences["model.recipe"], {"measured": "olmo2", "told": "llama"})

    def test_theory_that_is_told_another_std_keeps_the_input(self):
        flags = ["--config", self.config, "--quiet", *sets("model.recipe=gemma2"), "--theory-set", "init.std=0.04"]
        told, _ = run_result("propagate", *flags)
        self.assertEqual(list(told.fact("theory_told")["differences"][0]), ["init.std"])
        stack = told.stacks()[0]
        self.assertAlmostEqual(stack["second_moment_predicted"][0] / stack["second_moment_measured"][0], 1.0, delta=0.3)
        both, _ = run_result("propagate", *flags, "--theory-set", "input.second_moment=2")
        self.assertEqual(sorted(both.fact("theory_told")["differences"][0]), ["init.std", "input.second_moment"])

    def test_they_are_listed(self):
        done = run("list", "--recipes")
        self.assertEqual(done.returncode, 0)
        for recipe in KINDS:
            self.assertIn(f"\n  {recipe} ", done.stdout)
        listed = {r["name"]: r["sets"] for r in json.loads(run("list", "--json").stdout)["recipes"]}
        self.assertEqual(listed["olmo2"]["qk_norm"], "full")
        self.assertEqual(listed["gemma2"]["second_moment"], "0.0004*width")
        self.assertEqual((listed["gpt2"]["residual"], listed["llama"]["residual"]), ("1/sqrt(2L)", "1"))
        self.assertIn(done.stdout, run("list").stdout)


if __name__ == "__main__":
    unittest.main()
