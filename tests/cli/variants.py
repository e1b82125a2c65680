"""Lists for every key, --vary, names of stacks, recipes, and what results say of them. Usage: variants.py BINARY"""

import json
import unittest

from periscope_process import SMALL, STUDIES, SWEEPS, FolderTest, run, run_result, sets


def vary(*lists):
    return [word for one in lists for word in ("--vary", one)]


class Stacks(FolderTest):
    STACK = SMALL.replace('["pre", "peri"]', '"pre"') + SWEEPS

    def result(self, *flags, command="propagate"):
        return run_result(command, "--config", self.config, "--quiet", *flags)[0]

    def labels(self, *flags):
        return self.result(*flags, command="theory")["placement"]

    def stack(self, *settings):
        """The resolved first stack, and the result of `theory`."""
        result = self.result(*sets(*settings), command="theory")
        return result.config["stacks"][0], result


class Variants(Stacks):
    def test_the_cross_product_in_the_order_given(self):
        self.assertEqual(self.labels(*vary('model.qk_norm=["none","full"]', 'model.placement=["pre","peri"]')),
                         ["pre, qk_norm none", "peri, qk_norm none", "pre, qk_norm full", "peri, qk_norm full"])
        self.config.write_text(SMALL.replace("[init]", 'norm = ["rms", "layer"]\n[init]'))
        self.assertEqual(self.labels(*vary("init.qk_factor=[1.0,0.5]")),
                         [f"{p}, norm {n}, qk_factor {q}" for p in ("pre", "peri") for n in ("rms", "layer")
                          for q in ("1", "0.5")])  # fmt: skip
        self.assertEqual(self.labels(*sets("model.norm=rms")), ["pre", "peri"])
        self.assertEqual(self.labels(*sets('model.norm=["rms"]', "model.placement=post")), ["post"])

    def test_a_variant_is_the_stack_that_one_value_of_each_key_makes(self):
        varied = self.result(*vary('model.qk_norm=["none","full"]', 'input.kind=["gaussian","tokens"]')).stacks()
        pairs = [(kind, qk_norm) for kind in ("gaussian", "tokens") for qk_norm in ("none", "full")]
        for stack, (kind, qk_norm) in zip(varied, pairs, strict=True):
            one, = self.result(*sets(f"model.qk_norm={qk_norm}", f"input.kind={kind}")).stacks()
            for name in ("input", "variance_measured", "variance_predicted"):
                self.assertEqual(stack[name], one[name])
        by_list, by_flag = (self.result(*how) for how in (sets('model.placement=["pre","peri"]'),
                                                          vary('model.placement=["pre","peri"]')))
        self.assertEqual(by_list.data(), by_flag.data())
        self.assertEqual(by_list.attrs["config_sha256"], by_flag.attrs["config_sha256"])

    def test_every_study_of_stacks_takes_them(self):
        for name in ("ladder", "formats", "gradients depth", "gradients identity-path", "gradients score-path",
                     "gradients attenuation", "train", "first-steps"):
            with self.subTest(study=name):
                result, _ = run_result(*STUDIES[name], *vary('model.qk_norm=["none","full"]'), cwd=self.folder)
                labels = result["placement"] if "placement" in result else result["stack_placement"]
                self.assertLessEqual({"pre, qk_norm none", "pre, qk_norm full"}, set(labels))

    def test_twins_have_the_same_weights(self):
        """A key that leaves shapes alike leaves the random numbers alike: the first loss differs by the norm alone."""
        varied, _ = run_result(*STUDIES["train"], *vary("model.norm_eps=[1e-6,1e-2]"), cwd=self.folder)
        for place, eps in enumerate(("1e-6", "1e-2")):
            alone, _ = run_result(*STUDIES["train"], *sets(f"model.norm_eps={eps}"), cwd=self.folder)
            self.assertEqual([varied["loss"][place]], alone["loss"])

    def test_names_of_free_placements(self):
        labels = self.labels(*sets('model.placement=[{name="mine",A=true}, {name="theirs",B=true}, {C=true}]'))
        self.assertEqual((labels[:2], json.loads(labels[2])["C"]), (["mine", "theirs"], True))
        same, plain = (self.stack(f"model.placement={table}") for table in ("{name='mine',A=true}", "{A=true}"))
        self.assertEqual(same[1].attrs["config_sha256"], plain[1].attrs["config_sha256"])
        self.assertEqual(same[0]["model"]["placement"]["name"], "mine")

    def test_theory_overrides_of_variants(self):
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

    def test_results_say_how_stacks_differ_and_what_is_unusual(self):
        result = self.result(*vary('model.qk_norm=["none","full"]', 'model.placement=["pre","b-only"]'),
                             *sets("model.vocab=64"))
        self.assertEqual([json.loads(s) for s in result["placement_settings"]],
                         [{"model.placement": p, "model.qk_norm": q} for q in ("none", "full")
                          for p in ("pre", "b-only")])  # fmt: skip
        unusual = result.fact("config_differences")
        self.assertEqual([unusual[key] for key in ("model.vocab", "init.scheme", "run.seeds")], [64, "lecun", 4])
        for usual in ("model.qk_norm", "model.placement", "model.final_norm", "run.weights", "model.norm"):
            self.assertNotIn(usual, unusual)
        alone = self.result()
        self.assertNotIn("placement_settings", alone)
        self.assertEqual(alone.fact("config_differences")["model.placement"], "pre")


class Recipes(Stacks):
    STACK = SMALL.replace('[init]\nscheme = "lecun"\n', "").replace('placement = ["pre", "peri"]\n', "")

    def test_explicit_keys_win_in_any_order(self):
        for settings in (("model.recipe=olmo2", "model.qk_norm=none"), ("model.qk_norm=none", "model.recipe=olmo2")):
            self.assertEqual(self.stack(*settings)[0]["model"]["qk_norm"], "none")
        stack, _ = self.stack("model.recipe=bert", "model.placement=pre", "input.second_moment=2", "init.scheme=he")
        self.assertEqual([stack["model"]["final_norm"], stack["input"]["second_moment"], stack["init"]["scheme"]],
                         [True, 2.0, "he"])
        stack, _ = self.stack("model.recipe=gemma2", "model.preset=400M")
        self.assertEqual([stack["model"]["width"], stack["model"]["placement"]], [32, "peri"], "the file's width")

    def test_embeddings_and_positions_have_the_second_moment_of_their_std(self):
        for recipe, settings, moment in (
            ("gemma2", (), 32 * 0.02**2), ("gemma2", ("init.std=0.005",), 32 * 0.005**2),
            ("gemma2", ("init.std=0", "input.second_moment=2"), 2.0),
            ("gpt2", ("init.position_std=0.01",), 0.02**2 + 0.01**2),
            ("gpt2", ("init.embedding_std=0.04",), 2 * 0.04**2),  # positions follow
            ("gpt2", ("init.embedding_std=0.04", "init.position_std=0.01"), 0.04**2 + 0.01**2),
            ("gpt2", ("init.position_std=0.01", "init.std=0.03"), 0.03**2 + 0.01**2),
            ("gemma2", ("init.embedding_std=0.01",), 32 * 0.01**2),
            ("llama", ("init.truncation=1",), 4e-4 * 0.2911250947),
            ("llama", ("init.scheme=mitchell",), 4e-4 * 0.9733369246),  # truncated at 3
            ("llama", ("init.embedding_std=0.1", "init.truncation=1"), 1e-2 * 0.2911250947),
        ):  # fmt: skip
            with self.subTest(recipe=recipe, settings=settings):
                stack, _ = self.stack(f"model.recipe={recipe}", *settings)
                found = stack["input"]["second_moment"]
                self.assertAlmostEqual(found / moment, 1.0, delta=1e-6)
                again, _ = self.stack(f"model.recipe={recipe}", *settings, f"input.second_moment={found!r}")
                self.assertEqual(again, stack, "the resolved configuration can be run again")

    def test_a_recipe_is_what_its_keys_make(self):
        """By the numbers and the hash: which way a stack was asked for does not count."""
        keys = ("model.placement=b-only", "model.qk_norm=full", "model.norm_eps=1e-5", "input.second_moment=4e-4")
        recipe, keyed = self.stack("model.recipe=olmo2")[1], self.stack(*keys)[1]
        self.assertEqual((recipe.attrs["config_sha256"], recipe.data()), (keyed.attrs["config_sha256"], keyed.data()))

    def test_recipes_vary_and_override_theory(self):
        self.assertEqual(self.labels(*vary('model.recipe=["olmo2","gemma2"]')), ["olmo2", "gemma2"])
        told = self.result(*sets("model.recipe=olmo2"), "--theory-set", "model.recipe=llama")
        differences = told.fact("theory_override")["differences"][0]
        self.assertEqual(differences["model.recipe"], {"measured": "olmo2", "assumed": "llama"})

    def test_an_override_of_std_keeps_the_input(self):
        flags = [*sets("model.recipe=gemma2"), "--theory-set", "init.std=0.04"]
        told = self.result(*flags)
        self.assertEqual(list(told.fact("theory_override")["differences"][0]), ["init.std"])
        stack = told.stacks()[0]
        self.assertAlmostEqual(stack["second_moment_predicted"][0] / stack["second_moment_measured"][0], 1.0, delta=0.3)
        both = self.result(*flags, "--theory-set", "input.second_moment=2")
        self.assertEqual(sorted(both.fact("theory_override")["differences"][0]), ["init.std", "input.second_moment"])

    def test_they_are_listed(self):
        done = run("list", "--recipes")
        self.assertIn(done.stdout, run("list").stdout)
        for recipe in json.loads(run("list", "--json").stdout)["recipes"]:
            self.assertIn(f"\n  {recipe['name']} ", done.stdout)


if __name__ == "__main__":
    unittest.main()
