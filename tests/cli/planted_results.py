"""Planted results of `train` and `reproduce`, in which every number occurs once."""

import json

import numpy as np
import xarray as xr

from plots.dataset import array, tidy

LAYERS, SEEDS, STEPS, RATE = 3, 3, 24, 0.01
RECORDS = np.array([0, 1, 2, 5, 10, 12, 20, 24])
GROUPS = (
    [(p, "base", "", RATE) for p in ("post", "pre", "peri", "a+c", "b-only")]
    + [(p, "rates", f"rate x {f:g}", RATE * f) for f in (3.0, 0.1) for p in ("post", "pre", "peri")]
    + [(p, "rates-warmup", f"warm-up x 3, rate x {f:g}", RATE * f) for f in (0.1, 3.0) for p in ("pre", "peri")]
    + [(p, "sgd", f"SGD, rate {r:g}", r) for r in (0.3, 0.03) for p in ("post", "pre", "peri")]
    + [("peri", "frozen", "output gains frozen", RATE)]
    + [(p, "decay", f"weight decay {d:g}", RATE) for d in (0.33, 0.0) for p in ("pre", "peri")]
    + [(p, "init", f"variance {v:g}/d", RATE) for v in (10, 0.1) for p in ("pre", "peri")]
    + [("peri", "layer-norm", "LayerNorm", RATE), ("b-only", "olmo", "QK-norm (OLMo 2)", RATE)]
)
DECAYS, DEVIATIONS = {"weight decay 0.33": 0.33, "weight decay 0": 0.0}, {"variance 10/d": 0.9, "variance 0.1/d": 0.01}


class Numbers:
    """Random numbers from 1 to 2."""

    def __init__(self):
        self.draw = np.random.default_rng(1)

    def __call__(self, *shape):
        return self.draw.uniform(1.0, 2.0, shape)


CONFIG = {
    "run": {"seeds": SEEDS, "dtype": "f32"},
    "train": {"optimizer": "adamw", "lr": RATE, "steps": STEPS, "batch": 2, "corpus": "synthetic"},
    "stacks": [{"model": {"layers": LAYERS, "width": 16, "mlp": "swiglu", "norm": "rms", "placement": "peri"},
                "init": {"scheme": "normal", "std": 0.02}, "input": {"tokens": 8}}],
}
ATTRIBUTES = {"version": "0", "commit": "none", "loss_floor": 0.75, "model": "made up", "family": "llama"}


def result(columns, config, attributes):
    """Returns a result as if read from a file; `columns` maps names to (dimensions, values)."""
    every = {"program": "periscope", "config": json.dumps(config), **attributes}
    return xr.Dataset({name: (dims.split(), tidy(values)) for name, (dims, values) in columns.items()}, attrs=every)


def arrays(ds):
    """Returns the columns in the form that figures use."""
    return {name: array(ds, name) for name in ds.variables}


def planted_reproduce():
    numbers, r, d = Numbers(), len(RECORDS), 2 * LAYERS + 1
    sizes = {"group": len(GROUPS), "record": r, "depth": d, "other_depth": d, "layer": LAYERS, "sublayer": 2 * LAYERS,
             "seed": SEEDS, "step": STEPS}

    def made(dims, change=lambda values: values):
        return dims, change(numbers(*(sizes[dim] for dim in dims.split())))

    def ninth(values):
        return values / 9

    names = [f"{p}, {what}" if what else p for p, _, what, _ in GROUPS]
    many = len(GROUPS) * SEEDS
    v = {
        "group": ("group", names), "placement": ("group", [g[0] for g in GROUPS]),
        "study": ("group", [g[1] for g in GROUPS]), "lr": ("group", [g[3] for g in GROUPS]),
        "weight_decay": ("group", [DECAYS.get(g[2], 0.033) for g in GROUPS]),
        "init_std": ("group", [DEVIATIONS.get(g[2], 0.02) for g in GROUPS]),
        "record": ("record", RECORDS), "step": ("step", np.arange(1, STEPS + 1)), "depth": ("depth", np.arange(d)),
        "other_depth": ("other_depth", np.arange(d)), "sublayer": ("sublayer", np.arange(2 * LAYERS)),
        "layer": ("layer", np.arange(LAYERS)), "seed": ("seed", np.arange(SEEDS)),
        "final_loss": made("group seed"), "final_loss_mean": made("group"), "final_loss_stderr": made("group", ninth),
        "diverged_at": ("group seed", np.full((len(GROUPS), SEEDS), np.nan)),
        "spikes": ("group seed", np.arange(many).reshape(-1, SEEDS) + 1),
        "spike": ("group seed step", np.arange(many * STEPS).reshape(-1, SEEDS, STEPS) % 7 == 3),
        "loss": made("group seed step"), "grad_norm": made("group seed step"),
        "last_layer_grad_norm": made("group seed step"), "top_first": made("group seed record", lambda x: x + 2),
        "top_last": made("group seed record"), "cosine_share": made("group seed record"),
        "variance_predicted": made("group depth"), "second_moment_predicted": made("group depth"),
        "second_moment_predicted_stderr": made("group depth", ninth), "layer_gradient_predicted": made("group layer"),
        "layer_gradient_predicted_stderr": made("group layer", ninth),
        "scaled_second_moment": made("group seed depth"), "growth_from_scales": made("group seed"),
        "growth_from_sizes_inside": made("group seed"), "growth_from_alignment": made("group seed"),
        "growth_from_directions": made("group seed"), "growth_from_scales_given_directions": made("group seed"),
        **{f"claim{what}": ("claim", np.array([], dtype=object)) for what in ("", "_exhibit", "_verdict",
                                                                             "_statement")},
        "claim_p": ("claim", np.array([])), "claim_holm": ("claim", np.array([])), "quick": ("", np.array(False)),
    }
    for name, dims in (("variance", "depth"), ("second_moment", "depth"), ("eq4", "depth"), ("layer_gradient", "layer"),
                       ("gain_b", "sublayer"), ("angular_distance", "depth other_depth")):
        v[f"{name}_measured"], v[f"{name}_stderr"] = made(f"group record {dims}"), made(f"group record {dims}", ninth)
    v["angular_distance_measured"][1][:] /= 2
    v["variance_predicted"][1][[g[1] != "base" for g in GROUPS]] = np.nan
    return result(v, CONFIG, ATTRIBUTES)


def planted_claims(names, verdicts, mean, regime):
    """Returns a result of `reproduce` with only these claims."""
    planted, n = planted_reproduce(), len(names)
    tested = np.isin(verdicts, ["holds", "fails", "not-shown"])
    columns = {"claim": names, "claim_exhibit": ["1"] * n, "claim_statement": [f"about {c}" for c in names],
               "claim_verdict": verdicts, "claim_regime": [regime] * n, "claim_mean": [mean] * n,
               "claim_stderr": [0.1] * n, "claim_detectable": [1.0] * n, "claim_p": np.where(tested, 0.01, np.nan),
               "claim_holm": np.where(tested, 0.04, np.nan)}
    without = planted.drop_vars([name for name, v in planted.variables.items() if "claim" in v.dims])
    return without.assign({name: ("claim", tidy(values)) for name, values in columns.items()}
                          | {"regime": ((), np.array(regime, dtype=object))})


def planted_train():
    numbers, r, d = Numbers(), len(RECORDS), 2 * LAYERS + 1
    v = {
        "placement": ("placement", ["pre", "peri"]), "seed": ("seed", np.arange(SEEDS)),
        "step": ("step", np.arange(1, STEPS + 1)), "record": ("record", RECORDS), "depth": ("depth", np.arange(d)),
        "loss": ("placement seed step", numbers(2, SEEDS, STEPS)),
        "validation_loss": ("placement seed record", numbers(2, SEEDS, r)),
        "grad_norm": ("placement seed step", numbers(2, SEEDS, STEPS)),
        "diverged_at": ("placement seed", np.array([[np.nan, 9.0, np.nan], [np.nan] * 3])),
        "variance_measured": ("placement seed record depth", numbers(2, SEEDS, r, d)),
    }
    return result(v, CONFIG, ATTRIBUTES)

