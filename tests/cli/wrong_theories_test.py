"""Theory compared with simulation: a correct theory is not rejected, a wrong override or planted fault is."""

import math

import numpy as np
import pytest

from program import CONFIG, ROOT, SWEEPS, THREE, differing, fact, result, run

CLUSTERING = ROOT / "experiments" / "configs" / "attention_clustering.toml"
# Settings, and a wrong override of the theory.
INITIALISATIONS = [
    (["init.residual=1/sqrt(2L)"], "init.residual=1"),
    (["init.residual=1/(l+1)"], "init.residual=1/sqrt(2L)"),
    (["init.o_factor=2"], "init.o_factor=1"),
    (["init.scheme=mitchell"], "init.scheme=lecun"),
    (["init.truncation=1"], "init.truncation=0"),
    (["init.embedding_std=2", "input.kind=tokens"], "init.embedding_std=1"),
    (["init.head_std=0.5"], "init.head_std=0.1"),
    (["init.residual=1/sqrt(2L)", "init.embedding_std=0.5", "init.position_std=0.3", "init.head_std=0.5",
      "init.truncation=2", "input.kind=tokens"], "init.position_std=1"),
]
NARROW = ["model.width=4", "model.heads=1", "model.kv_heads=1", "model.head_dim=4", "model.mlp_width=4",
          "model.layers=6", "init.scheme=he"]


@pytest.mark.parametrize(("settings", "wrong"), INITIALISATIONS, ids=[settings[0] for settings, _ in INITIALISATIONS])
def test_theories_with_the_right_initialization_agree_and_others_do_not(settings, wrong):
    words = ("propagate", CONFIG, "--backward", settings, "model.placement=pre", "run.seeds=16")
    assert result(*words).verdict.item() != "disagrees"
    assert result(*words, "--theory-set", wrong, code=4).verdict.item() == "disagrees"


def test_residual_is_o_factor_and_down_factor_together():
    words = ("propagate", CONFIG, "--backward", "model.layers=3", "model.placement=pre")
    one, plain = result(*words, "init.residual=1/sqrt(2L)"), result(*words)
    factor = repr(1.0 / math.sqrt(6.0))
    assert differing(one, result(*words, f"init.o_factor={factor}", f"init.down_factor={factor}")) == set()
    assert differing(one, plain)


def test_narrow_stacks_reject_the_infinite_width_limit_but_not_the_finite_width_chain():
    words = ("propagate", CONFIG, NARROW, "model.placement=post", "run.seeds=400")
    limit = ("theory.finite_width=false", "agreement.finite_width=0.0", "agreement.finite_width_cosine=0.0")
    assert result(*words, limit, code=4).verdict.item() == "disagrees"
    assert result(*words).verdict.item() != "disagrees"


def test_rates_of_token_clustering_depend_on_the_placement():
    words = ("--config", CLUSTERING)
    ds = result("theory", words, "model.layers=32", 'model.placement=["post","pre","peri","lns"]')
    apart = {p: 1 - ds.token_cosine_predicted.sel(placement=p).values.ravel()[::2] for p in ds.placement.values}
    np.testing.assert_allclose(np.log(apart["post"][14:20] / apart["post"][15:21]), math.log(2), atol=1e-3)
    power = {p: math.log2(values[16] / values[32]) for p, values in apart.items()}
    assert power["pre"] == pytest.approx(1.16, abs=0.05)  # from layer 16 to 32; 1.09 from layer 32 to 64
    assert power["peri"] == pytest.approx(0.95, abs=0.05)
    assert power["lns"] < 0.3
    assert apart["peri"][1] < apart["pre"][1] - 0.1
    ds = result("propagate", words, "model.placement=pre", "model.layers=6").isel(depth=-1)
    assert abs(ds.token_cosine_measured - ds.token_cosine_predicted) < 5 * ds.token_cosine_stderr


@pytest.mark.parametrize("norm", ["dyt", "derf"])
def test_an_alpha_with_an_error_of_5_percent_is_rejected(norm):
    """DyT and Derf have no finite-width chain, so the tolerated bias of the infinite-width limit must be small."""
    stack = (f"model.norm={norm}", "model.placement=pre", "model.layers=2", "model.width=1024", "model.heads=16",
             "model.mlp_width=2048", "init.scheme=lecun", "input.tokens=16", "input.correlation=0.1", "run.seeds=16",
             "run.weights=matrix-free")
    run("propagate", stack, "--quiet")
    run("propagate", stack, "--quiet", "--theory-set", "model.norm_alpha=0.525", code=4)


def test_a_wrong_theory_of_formats_fails_but_drift_of_a_format_does_not():
    """int4 makes outputs of modules larger, so that Pre-LN grows too fast; Peri-LN does not."""
    words = ("formats", CONFIG, 'formats.format=["int4"]', "formats.certificates=false", "--seeds", 400,
             "model.layers=4", "formats.scale=tensor", "theory.replicates=800")
    ds = result(*words)
    int4 = ds.sel(format="int4")
    assert (list(int4.verdict)[0], list(int4.drift_verdict)) == ("disagrees", ["disagrees", "agrees"])
    assert list(ds.verdict.sel(format="fp64")) == ["agrees"] * 2
    run(*words, "--theory-set", "init.down_factor=2", code=4)


def test_an_overflow_in_a_format_is_not_checked():
    ds = result("formats", CONFIG, 'formats.format=["fp16","int4"]', "model.gamma=1e5", "formats.certificates=true")
    fp16 = ds.sel(format="fp16")
    assert set(fp16.verdict.values) == {"not-checked"} and not fp16.certified.any()
    assert all("diverged" in reason for reason in fp16.verdict_reason.values)
    assert (fp16.overflow_seeds.sel(features="plain") == 4).all()
    exact = ds.second_moment.sel(format="fp64", features="plain", site="x_out")
    assert np.isfinite(exact.isel(place=3)).all()


@pytest.fixture
def swept(folder):
    (folder / "small.toml").write_text(THREE + SWEEPS)


def gradients(experiment, *words, **options):
    return result("gradients", experiment, CONFIG, "--dtype", "f64", *words, **options)


# At width 4, gradients of the score path vary too much between seeds for a verdict; at width 8 they do not.
WIDER = ("--seeds", 200, "model.width=8", "model.head_dim=8", "model.mlp_width=8", "init.scheme=lecun",
         "model.layers=2")


@pytest.mark.parametrize(("experiment", "settings", "code"), [
    ("score-path", WIDER, 4), ("score-path", ("--seeds", 80), 0), ("crossover", ("--seeds", 80), 4)])
def test_narrow_stacks_reject_the_limit_of_gradients(experiment, settings, code, swept):
    """Wrong slopes and paths are tested in tests/agreement at larger widths."""
    ds = gradients(experiment, NARROW, "agreement.finite_width_gradient=0.0", "init.qk_factor=2.0",
                   "theory.gradient_tolerance=0.1", settings, code=code)
    assert code or any("seeds" in reason for reason in ds.verdict_reason.values)


@pytest.mark.parametrize(("experiment", "wrong"), [
    ("depth", "init.down_factor=3"), ("attenuation", "theory.fault=no-score-path"),
    ("identity-path", "theory.fault=no-score-path"), ("score-path", "init.qk_factor=3"),
    ("crossover", "theory.fault=beta0")])
def test_an_override_changes_predicted_but_not_measured_columns(experiment, wrong, swept):
    few = ('model.placement=["pre", "peri"]', "gradients.qk_factors=[1.0]", "gradients.down_factors=[0.05, 5.0]",
           "theory.gradient_tolerance=0.5")
    changed = differing(gradients(experiment, few), gradients(experiment, few, "--theory-set", wrong))
    assert any(name.endswith("_predicted") for name in changed)
    measured = {name for name in changed if name.endswith(("_measured", "_stderr")) and "_predicted" not in name}
    assert measured == set() and "placement" not in changed


def test_a_wrong_placement_of_gradients_is_rejected(swept):
    wide = ("model.placement=pre", "model.width=64", "gradients.layers=[1,2,4]", "--seeds", 24,
            "theory.gradient_tolerance=0.5")
    gradients("depth", wide)
    ds = gradients("depth", wide, "--theory-set", "model.placement=post", code=4)
    (difference,) = fact(ds, "theory_override")["differences"]
    assert difference["model.placement"] == {"measured": "pre", "assumed": "post"}


def test_uniform_attention_has_no_score_path(swept):
    ds = gradients("score-path", "init.qk_factor=0.0")
    assert not ds.score_share_measured.any() and not ds.score_share_predicted.any()
    assert ds.log_grad_sq_predicted.variable.equals(ds.log_grad_sq_without_scores_predicted.variable)


def test_results_contain_the_limit_of_infinite_width_too():
    ds, limit = result("propagate", CONFIG, code=(0, 4)), result("theory", CONFIG)
    np.testing.assert_array_equal(ds.variance_predicted_limit, limit.variance_predicted)
    assert (ds.variance_predicted != limit.variance_predicted).any()


def test_a_rejection_outranks_a_divergence():
    words = ("propagate", CONFIG, 'model.placement=["none","peri"]', "init.scheme=normal", "init.std=1e8",
             "run.dtype=f32", "run.seeds=8", "--fail-on-divergence")
    run(words, code=5)
    run(words, "--theory-set", "model.gamma=2", code=4)


def test_every_master_seed_is_another_run(folder):
    (folder / "list.toml").write_text("""
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=4", "model.layers=1"]
master_seeds = true
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
""")
    runs = run("power", "--config", "list.toml", "--master-seeds", 2, "--out", "counted", "--json").json["runs"]
    assert runs[0]["excess"] != runs[1]["excess"] or runs[0]["worst_test"] != runs[1]["worst_test"]
