"""Sweeps (lists of values and --vary), names of stacks, recipes, and their provenance in results."""

import itertools
import json

import numpy as np
import pytest

from program import CONFIG, SMALL, STUDIES, SWEEPS, differing, fact, rejected, result, run, stack_of

QK = ("--vary", 'model.qk_norm=["none","full"]')


@pytest.fixture(autouse=True)
def one_placement(folder):
    (folder / "small.toml").write_text(SMALL.replace('["pre", "peri"]', '"pre"') + SWEEPS)


def propagate(*words):
    return result("propagate", CONFIG, words, code=(0, 4))


def labels(*words):
    return list(result("theory", CONFIG, words).placement.values)


def test_sweeps_form_the_cross_product_in_the_given_order(folder):
    assert labels(QK, "--vary", 'model.placement=["pre","peri"]') == [
        "pre, qk_norm none", "peri, qk_norm none", "pre, qk_norm full", "peri, qk_norm full"]
    (folder / "small.toml").write_text(SMALL.replace("[init]", 'norm = ["rms", "layer"]\n[init]'))
    every = itertools.product(("pre", "peri"), ("rms", "layer"), ("1", "0.5"))
    assert labels("--vary", "init.qk_factor=[1.0,0.5]") == [f"{p}, norm {n}, qk_factor {q}" for p, n, q in every]
    assert labels("model.norm=rms") == ["pre", "peri"]
    assert labels('model.norm=["rms"]', "model.placement=post") == ["post"]


def test_a_variant_equals_the_run_with_its_values():
    varied = propagate(QK, "--vary", 'input.kind=["gaussian","tokens"]')
    for (i, kind), (k, qk_norm) in itertools.product(enumerate(("gaussian", "tokens")), enumerate(("none", "full"))):
        one = propagate(f"model.qk_norm={qk_norm}", f"input.kind={kind}")
        for name in ("variance_measured", "variance_predicted"):
            np.testing.assert_array_equal(varied[name].values[i, k], one[name].values[0, 0])
    both = 'model.placement=["pre","peri"]'
    by_list, by_flag = propagate(both), propagate("--vary", both)
    assert (differing(by_list, by_flag), by_list.attrs["config_sha256"]) == (set(), by_flag.attrs["config_sha256"])


@pytest.mark.parametrize("study", ["ladder", "formats", "gradients depth", "gradients identity-path",
                                   "gradients score-path", "gradients attenuation", "train", "first-steps"])
def test_every_study_of_stacks_accepts_sweeps(study):
    ds = result(STUDIES[study], QK, code=(0, 4))
    assert {"pre, qk_norm none", "pre, qk_norm full"} <= set(ds.get("placement", ds.get("stack_placement")).values)


@pytest.mark.parametrize("sweep", ["input.tokens=[4,9]", "model.vocab=[256,300]", "model.unembedding=[true,false]",
                                   "model.causal=[true,false]"])
def test_train_rejects_sweeps_of_what_batches_depend_on(sweep):
    rejected(STUDIES["train"], "--vary", sweep, names=[sweep.split("=")[0]])


def test_variants_of_the_same_shape_have_the_same_weights():
    varied = result(STUDIES["train"], "--vary", "model.norm_eps=[1e-6,1e-2]")
    for place, eps in enumerate(("1e-6", "1e-2")):
        alone = result(STUDIES["train"], f"model.norm_eps={eps}")
        np.testing.assert_array_equal(varied.loss.values[place], alone.loss.values[0])


def test_free_placements_may_be_named():
    mine, theirs, free = labels('model.placement=[{name="mine",A=true}, {name="theirs",B=true}, {C=true}]')
    assert (mine, theirs, json.loads(free)["C"]) == ("mine", "theirs", True)
    named, plain = (result("theory", CONFIG, f"model.placement={p}") for p in ("{name='mine',A=true}", "{A=true}"))
    assert named.attrs["config_sha256"] == plain.attrs["config_sha256"]
    assert stack_of(named)["model"]["placement"]["name"] == "mine"


def test_theory_overrides_apply_to_every_variant():
    wrong, right = propagate(QK, "--theory-set", "model.qk_norm=none"), propagate(QK)
    alone = propagate("model.qk_norm=full", "--theory-set", "model.qk_norm=none")
    swapped = propagate(QK, "--theory-set", 'model.qk_norm=["full","none"]')
    predicted = [ds.variance_predicted.values[0] for ds in (wrong, right, alone)]
    np.testing.assert_array_equal(predicted[0][0], predicted[1][0])
    np.testing.assert_array_equal(predicted[0][1], predicted[2][0])
    for other in (wrong, swapped):
        np.testing.assert_array_equal(other.variance_measured, right.variance_measured)


def test_results_record_differences_of_stacks_and_from_defaults():
    ds = propagate(QK, "--vary", 'model.placement=["pre","b-only"]', "model.vocab=64")
    assert [json.loads(s) for s in ds.placement_settings.values] == [
        {"model.placement": p, "model.qk_norm": q} for q in ("none", "full") for p in ("pre", "b-only")]
    unusual = fact(ds, "config_differences")
    assert [unusual[key] for key in ("model.vocab", "init.scheme", "run.seeds")] == [64, "lecun", 4]
    usual = {"model.qk_norm", "model.placement", "model.final_norm", "run.weights", "model.norm"}
    assert not usual & set(unusual)
    alone = propagate()
    assert "placement_settings" not in alone and fact(alone, "config_differences")["model.placement"] == "pre"


@pytest.fixture
def bare(folder):
    text = SMALL.replace('[init]\nscheme = "lecun"\n', "").replace('placement = ["pre", "peri"]\n', "")
    (folder / "small.toml").write_text(text)


def stack(*settings):
    return stack_of(result("theory", CONFIG, settings))


def test_explicit_keys_override_recipes_in_any_order(bare):
    for settings in (("model.recipe=olmo2", "model.qk_norm=none"), ("model.qk_norm=none", "model.recipe=olmo2")):
        assert stack(*settings)["model"]["qk_norm"] == "none"
    found = stack("model.recipe=bert", "model.placement=pre", "input.second_moment=2", "init.scheme=he")
    assert (found["model"]["final_norm"], found["input"]["second_moment"], found["init"]["scheme"]) == (True, 2.0, "he")
    model = stack("model.recipe=gemma2", "model.preset=400M")["model"]
    assert (model["width"], model["placement"]) == (32, "peri"), "the width in the file is preserved"


@pytest.mark.parametrize(("recipe", "settings", "moment"), [
    ("gemma2", (), 32 * 0.02**2), ("gemma2", ("init.std=0.005",), 32 * 0.005**2),
    ("gemma2", ("init.std=0", "input.second_moment=2"), 2.0),
    ("gpt2", ("init.position_std=0.01",), 0.02**2 + 0.01**2),
    ("gpt2", ("init.embedding_std=0.04",), 2 * 0.04**2),  # positions add the same variance
    ("gpt2", ("init.embedding_std=0.04", "init.position_std=0.01"), 0.04**2 + 0.01**2),
    ("gpt2", ("init.position_std=0.01", "init.std=0.03"), 0.03**2 + 0.01**2),
    ("gemma2", ("init.embedding_std=0.01",), 32 * 0.01**2),
    ("llama", ("init.truncation=1",), 4e-4 * 0.2911250947),
    ("llama", ("init.scheme=mitchell",), 4e-4 * 0.9733369246),  # variance of N(0, 1) truncated at ±3
    ("llama", ("init.embedding_std=0.1", "init.truncation=1"), 1e-2 * 0.2911250947),
])
def test_embeddings_and_positions_have_the_second_moment_of_their_std(recipe, settings, moment, bare):
    found = stack(f"model.recipe={recipe}", *settings)
    assert found["input"]["second_moment"] == pytest.approx(moment, rel=1e-6)
    again = stack(f"model.recipe={recipe}", *settings, f"input.second_moment={found['input']['second_moment']!r}")
    assert again == found, "the resolved value gives the same stack"


def test_a_recipe_equals_its_keys(bare):
    keys = ("model.placement=b-only", "model.qk_norm=full", "model.norm_eps=1e-5", "input.second_moment=4e-4")
    recipe, keyed = result("theory", CONFIG, "model.recipe=olmo2"), result("theory", CONFIG, keys)
    assert (differing(recipe, keyed), recipe.attrs["config_sha256"]) == (set(), keyed.attrs["config_sha256"])


def test_recipes_vary_and_override_theory(bare):
    assert labels("--vary", 'model.recipe=["olmo2","gemma2"]') == ["olmo2", "gemma2"]
    ds = propagate("model.recipe=olmo2", "--theory-set", "model.recipe=llama")
    (differences,) = fact(ds, "theory_override")["differences"]
    assert differences["model.recipe"] == {"measured": "olmo2", "assumed": "llama"}


def test_an_override_of_std_preserves_the_input(bare):
    words = ("model.recipe=gemma2", "--theory-set", "init.std=0.04")
    ds, both = propagate(words), propagate(words, "--theory-set", "input.second_moment=2")
    assert list(fact(ds, "theory_override")["differences"][0]) == ["init.std"]
    at_input = ds.isel(depth=0)
    assert at_input.second_moment_predicted.item() == pytest.approx(at_input.second_moment_measured.item(), rel=0.3)
    assert sorted(fact(both, "theory_override")["differences"][0]) == ["init.std", "input.second_moment"]


def test_recipes_are_listed():
    listed = run("list", "--recipes").out
    assert listed in run("list").out
    for recipe in run("list", "--json").json["recipes"]:
        assert f"\n  {recipe['name']} " in listed


def test_records_contain_mean_and_rms_of_gains():
    ds = result(STUDIES["train"], "model.placement=peri")
    rms, mean = (ds[f"gain_{value}_norm_b"].values[:, :, -1] for value in ("rms", "mean"))
    assert (rms > mean).all()


def compared(*stacks, flags=(), code=0):
    return result("compare", stacks, CONFIG, flags, code=code)


def test_compared_stacks_equal_their_own_runs():
    keys = '{init.std=0.1,init.scheme="normal"}'
    both = compared("gemma2", "keel", keys, "{C=true}", "{model.layers=3}", "{model.layers=1}", flags=("--backward",))
    assert list(both.placement.values[:3]) == ["gemma2", "keel", "scheme normal, std 0.1"]
    assert both.sizes["layer"] == 3 and both.sizes["depth"] == 7
    alone = (["model.recipe=gemma2"], ["model.placement=keel"], ["init.std=0.1", "init.scheme=normal"],
             ["model.placement={C=true}"], ["model.layers=3"], ["model.layers=1"])
    for place, settings in enumerate(alone):
        one = result("theory", CONFIG, ("--backward",), *settings)
        for name in ("variance_predicted", "log_grad_sq_predicted", "largest_predicted", "weight_grad_sq_predicted"):
            found, expected = (np.atleast_1d(v) for v in (both[name].values[0, place], one[name].values[0, 0]))
            own = expected.shape[-1]  # the others are padding
            np.testing.assert_array_equal(found[..., :own], expected)
            assert np.isnan(found[..., own:]).all()


def test_comparison_summarises_curves():
    ds = compared("pre", "post", flags=("--backward", "--measure", "--seeds", "4"), code=(0, 4))
    for version in ("predicted", "measured"):
        at = {name: ds[f"{name}_{version}"][0] for name in ("maximum", "log_grad_sq", "site_branch_ratio", "largest")}
        sums = ds[f"site_maximum_{version}"].sel(site="sum")[0]
        largest = np.fmax(at["maximum"].max("depth"), sums.max("sublayer"))
        np.testing.assert_array_equal(at["largest"], largest)
        gradient = np.exp((at["log_grad_sq"].isel(depth=0) - at["log_grad_sq"].isel(depth=-1)) / 2)
        np.testing.assert_allclose(ds[f"gradient_ratio_{version}"][0], gradient, rtol=1e-12)
        bits = -np.log2(at["site_branch_ratio"].sel(site="B_out").min("sublayer"))
        np.testing.assert_allclose(ds[f"bits_lost_{version}"][0], bits.clip(min=0), rtol=1e-12)
        margins = ds[f"format_margin_{version}"][0]
        np.testing.assert_allclose(margins.sel(format="fp16") * largest, 65504, rtol=1e-12)
    where = list(ds.largest_at_predicted.values[0])
    assert where[0].startswith("x[") and where[1].startswith("sum[")


def test_an_overflow_has_no_summary():
    ds = compared("pre", "{A = true, alpha = 1e10}", "--set", "run.dtype=f32", flags=("--measure",), code=(0, 4))
    assert list(ds.largest_at_measured.values[0] == "overflow") == [False, True]
    assert np.isnan(ds.largest_measured.values[0, 1]) and np.isfinite(ds.largest_measured.values[0, 0])


@pytest.mark.parametrize(("stacks", "named"), [
    (["pre"], "at least two stacks"), (["pre", "pree"], "nearest is pre"), (["pre", "pre"], "distinct stacks"),
    (["pre", "{A=1"], "invalid TOML"), (["pre", "{run.seeds=9}"], "run.seeds"),
    (["pre", "{model.widht=9}"], "model.width"),
    (["pre", "{model.width=[8,16]}"], "model.width")])  # fmt: skip
def test_compare_rejects(stacks, named):
    rejected("compare", stacks, names=[named])
