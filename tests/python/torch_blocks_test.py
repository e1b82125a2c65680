"""Compares every placement, norm kind and module part with an independent PyTorch stack, forward and backward; every
column of `propagate` with statistics of its signals; and the first optimizer steps with the same steps in PyTorch."""

import json
import math

import numpy as np
import pytest

from program import CONFIG, result, run
from torch_stack import difference, gradient, load, of_dump, torch

LAYERS, TOLERANCE = 4, 1e-10
PLACEMENTS = ("none", "post", "pre", "peri", "b-only", "a+c", "deepnorm", "deepnorm-glm", "mix", "lns", "depth-scaled",
              "residual-dual", "keel", "beam", "u-mup", "muse-spark", "span", "x0", "ngpt", "layer-scale", "parallel",
              "parallel-two")
INNER_O, INNER_DOWN, GATE, V_NORM = ("attention.inner_norm.gain", "mlp.inner_norm.gain", "attention.gate.weight",
                                     "attention.v_norm.gain")
QKV = [f"attention.{part}_norm.gain" for part in "qkv"]
# name: placement, keys of [model], tensors that every layer must have, placements by layer
CASES = {
    **{name: (name, {}, []) for name in PLACEMENTS},
    "sub-ln": ("sub-ln", {}, [INNER_O, INNER_DOWN]),
    "post+embedding": ("post", {"embedding_norm": True}, []),
    "pre+layer": ("pre", {"norm": "layer"}, []),
    "peri+qk-head": ("peri", {"qk_norm": "head"}, QKV[:2]),
    "b-only+qk-full": ("b-only", {"qk_norm": "full"}, QKV[:2]),
    "pre-bidirectional": ("pre", {"rope": False, "causal": False}, []),
    "table": ({"A": True, "C": True, "alpha": 1.5, "beta": 0.5}, {}, []),
    "hyper": ("hyper", {"streams": 4}, []),
    **{f"hyper+{mixing}": ("hyper", {"streams": 3, "stream_mixing": mixing, "stream_write": "one"}, [])
       for mixing in ("uniform", "random")},
    "hybridnorm": ("hybridnorm", {"qk_norm": "head", "v_norm": True}, QKV),
    "ngpt+embedding": ("ngpt", {"embedding_norm": True, "qk_norm": "head"}, []),
    **{f"{placement}+{kind}": (placement, {"norm": kind, "embedding_norm": placement == "post"}, [])
       for kind in ("dyt", "derf", "l2") for placement in ("pre", "peri", "post", "parallel")},
    "pre+dyt+alpha": ("pre", {"norm": "dyt", "norm_alpha": 0.8}, []),
    "pre+v-norm": ("pre", {"v_norm": True}, [V_NORM]),
    **{f"pre+inner-{inner}": ("pre", {"inner_norm": inner}, parts)
       for inner, parts in (("o", [INNER_O]), ("down", [INNER_DOWN]), ("both", [INNER_O, INNER_DOWN]))},
    **{f"peri+gate-{gate}": ("peri", {"attention_gate": gate}, [GATE]) for gate in ("head", "channel")},
    **{f"peri+gate-{gate}+all": ("peri", {"attention_gate": gate, "inner_norm": "both", "v_norm": True,
                                          "qk_norm": "head"}, [GATE, INNER_O, V_NORM]) for gate in ("head", "channel")},
    "per-kind": ({"attention": "post", "mlp": "pre"}, {}, []),
    "per-kind-tables": ({"attention": {"A": True, "B": True, "beta": 0.5}, "mlp": {"C": True, "alpha": 2.0}}, {}, []),
    "per-layer": ("pre", {}, [], {"0-1": "post", "3-3": "peri"}),
    "per-layer+kind": ("pre", {}, [], {"1-2": {"attention": "peri", "mlp": "b-only"}}),
    "alpha-2L": ({"A": True, "C": True, "alpha": "2L"}, {}, []),
    "beta-of-l": ({"A": True, "beta": "1/sqrt(l+1)"}, {}, []),
}


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def toml(value):
    """Returns a value as TOML text, with tables as inline tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)


def initial_values(model, weights):
    """Returns the names of norm tensors with wrong initial values. Expected: gains gamma, or 1 inside modules; alpha as
    configured; bias 0; LayerScale's factors model.layer_scale."""
    wrong = []
    for name, tensor in weights.items():
        *_, norm, part = name.split(".")
        inside = norm in ("q_norm", "k_norm", "v_norm", "inner_norm")
        gain = model["layer_scale"] if norm == "branch_scale" else model["gamma"]
        first = {"gain": 1.0 if inside else gain, "alpha": model.get("norm_alpha"), "bias": 0.0}.get(part)
        wrong += [name] if first is not None and not bool((tensor == first).all()) else []
    return wrong


def order(name):
    """Sort key: order of computation, so that the first mismatch locates the error. Streams come first."""
    backward, index = name.startswith("grad."), name.rsplit(".", 1)[-1]
    depth = int(index) if index.isdigit() else 0
    return backward, "stream." not in name, -depth if backward else depth


@pytest.mark.parametrize(("name", "mlp", "weights"), [
    *((name, mlp, "dense") for name in CASES for mlp in ("swiglu", "gelu")),
    *((name, "swiglu", "matrix-free") for name in ("pre", "peri", "post"))])  # more: tests/model/matrix_free_test.cpp
def test_a_dump_equals_an_independent_stack(name, mlp, weights, folder):
    """Gains differ from 1 and epsilon is large, so that misplacing either is detected."""
    placement, keys, parts, *by_layer = CASES[name]
    model = {"layers": LAYERS, "width": 32, "heads": 4, "kv_heads": 2, "mlp_width": 48, "vocab": 23, "gamma": 1.25,
             "norm_eps": 1e-3, "placement": placement, "mlp": mlp, **keys}
    lines, layers = ["[model]", *(f"{key} = {toml(value)}" for key, value in model.items())], {}
    for text, other in (by_layer[0] if by_layer else {}).items():
        lines += ["[[model.layer_placement]]", f'layers = "{text}"', f"placement = {toml(other)}"]
        first, last = map(int, text.split("-"))
        layers |= dict.fromkeys(range(first, last + 1), other)
    lines += ["[init]", 'scheme = "lecun"', "[input]", 'kind = "tokens"', "tokens = 7"]
    (folder / "small.toml").write_text("\n".join(lines) + "\n")
    run("propagate", CONFIG, "--seeds", "1", "--dtype", "f64", "--backward", "--dump", "dump", "--quiet",
        f"run.weights={weights}", code=(0, 4))  # 4: the theory may disagree at this small width
    stack, config = of_dump(folder / "dump", placement=placement, by_layer=layers)
    dumped = load(folder / "dump" / "activations.safetensors")
    wanted = [f"layers.{layer}.{part}" for layer in range(LAYERS) for part in parts]
    wanted += [f"{norm}.gain" for norm in ("embedding_norm", "final_norm") if config["model"][norm]]
    assert set(wanted) <= set(stack.weights)
    expected = stack.run(dumped.pop("tokens"), dumped.pop("labels"))
    assert (stack.unused(), initial_values(config["model"], stack.weights)) == ([], [])
    mixing = {f"grad.weight.{n}" for n in stack.weights if n.rsplit(".", 1)[-1] in ("pre", "post", "mix")}
    assert set(expected) - mixing == set(dumped) - mixing
    gaps = {n: difference(dumped[n].reshape(expected[n].shape), expected[n]) for n in sorted(dumped, key=order)}
    assert {n: gap for n, gap in gaps.items() if not gap <= TOLERANCE} == {}


STACK = """
[model]
layers = 2
width = 16
heads = 4
kv_heads = 2
mlp_width = 24
vocab = 40
[init]
scheme = "lecun"
[input]
tokens = 5
correlation = 0.3
[run]
dtype = "f64"
seeds = 4
"""
# Tested in addition to Peri-LN: norm A before the branch, norm C after the sum, scaled stream and branch.
SCALED = {"A": True, "B": False, "C": True, "alpha": 0.8, "beta": 0.5}
SITES = ["x_in", "A_out", "f_out", "B_out"]
# Both computations use f64. Four sublayers of width 16 accumulate fewer than 1e3 rounding errors of 1.1e-16. The
# absolute tolerance covers cancellation in means.
TIGHT = {"rtol": 1e-11, "atol": 1e-13}


def statistics(x):
    """Returns every statistic of a signal [T, D], as defined in sim/spec/profile.h."""
    centred = x - x.mean(-1, keepdims=True)
    unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
    cosines, tokens = unit @ unit.T, len(x)
    return {
        "second_moment": (x**2).mean(), "variance": x.var(-1).mean(), "mean": x.mean(),
        "kurtosis": ((centred**4).mean(-1) / x.var(-1)**2).mean(), "maximum": np.abs(x).max(),
        "token_cosine": (cosines.sum() - np.trace(cosines)) / (tokens * (tokens - 1)),
    }


def angle(a, b):
    """Returns arccos(cosine)/pi between two streams [T, D], averaged over tokens."""
    cosine = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    return np.arccos(np.clip(cosine, -1, 1)).mean() / np.pi


@pytest.fixture(scope="module", params=["peri", SCALED], ids=["peri", "scaled"])
def measured(request, tmp_path_factory):
    """Returns the result for one input and placement, the placement, and for each seed: signals and their gradients by
    sublayer and name, gradients of weights, streams, and gradients of the streams."""
    torch.set_default_dtype(torch.float64)
    folder, rule = tmp_path_factory.mktemp("measured"), request.param
    (folder / "stack.toml").write_text(STACK)
    words = ("propagate", "--config", "stack.toml", f"model.placement={toml(rule)}", "--backward")
    ds, seeds = result(words, cwd=folder).isel(input=0, placement=0), []
    for seed in range(4):
        run(words, "--seed", seed, "--seeds", 1, "--dump", f"seed{seed}", "--quiet", cwd=folder)
        stack, _ = of_dump(folder / f"seed{seed}", placement=rule)
        dumped = load(folder / f"seed{seed}" / "activations.safetensors")
        found = stack.run(None, dumped["labels"], dumped["input"])
        assert max(difference(dumped[name], found[name]) for name in dumped if name in found) < 1e-11
        signals = {key: x.detach().numpy() for key, x in stack.seen.items()}
        gradients = {key: gradient(x).numpy() for key, x in stack.seen.items()}
        weights = {name: gradient(w).numpy() for name, w in stack.weights.items()}
        seeds.append((signals, gradients, weights, [found[f"stream.{i}"].numpy() for i in range(5)],
                      [found[f"grad.stream.{i}"].numpy() for i in range(5)]))
    return ds, rule, *zip(*seeds, strict=True)


def check(ds, name, per_seed, **place):
    """Compares a variable with the mean and the standard error (n - 1) of values [seed, …]."""
    per_seed = np.array(per_seed)
    got, error = (ds[f"{name}_{v}"].sel(place).values for v in ("measured", "stderr"))
    np.testing.assert_allclose(got, per_seed.mean(0), **TIGHT, err_msg=f"{name}_measured at {place}")
    # A standard error loses digits because it is computed from differences of nearly equal values.
    np.testing.assert_allclose(error, per_seed.std(0, ddof=1) / np.sqrt(len(per_seed)), rtol=1e-9,
                               atol=1e-11 * np.abs(per_seed).max(), err_msg=f"{name}_stderr at {place}")


def test_every_statistic_at_every_site_equals_pytorch(measured):
    ds, _, signals, _, _, streams, _ = measured
    for name in statistics(streams[0][0]):
        check(ds, name, [[statistics(x)[name] for x in of_seed] for of_seed in streams])
        for site in SITES:
            check(ds, f"site_{name}", [[statistics(of[s, site])[name] for s in range(4)] for of in signals], site=site)
    for name in ("second_moment", "variance"):
        by_hand = [[statistics(x)[name] for x in of_seed] for of_seed in streams]
        np.testing.assert_allclose(ds[f"{name}_per_seed"], by_hand, **TIGHT)


def test_branches_angles_and_largest_entries_equal_pytorch(measured):
    ds, rule, signals, _, _, streams, _ = measured
    alpha, beta = (1.0, 1.0) if rule == "peri" else (rule["alpha"], rule["beta"])
    pairs = [[(of[s, "B_out"], of[s, "x_in"]) for s in range(4)] for of in signals]
    norm = np.linalg.norm
    check(ds, "site_branch_ratio", [[(beta * norm(b, axis=-1) / norm(x, axis=-1) / alpha).mean() for b, x in of_seed]
                                    for of_seed in pairs], site="B_out")
    check(ds, "site_branch_cosine", [[((b * x).sum(-1) / norm(b, axis=-1) / norm(x, axis=-1)).mean()
                                      for b, x in of_seed] for of_seed in pairs], site="B_out")
    by_hand = np.mean([[[angle(a, b) for b in of_seed] for a in of_seed] for of_seed in streams], axis=0)
    # Near 1, arccos loses half of the digits: its derivative is 1/sqrt(2 (1 - cosine)).
    np.testing.assert_allclose(ds.angular_distance_measured, by_hand, atol=1e-7)
    for site in (*SITES, "x_out"):
        for s in range(4):
            largest = np.sort(np.concatenate([np.abs(of[s, site]).ravel() for of in signals]))[::-1][:100]
            shown = ds.top_magnitudes[s + 1] if site == "x_out" else ds.site_top_magnitudes.sel(site=site)[s]
            np.testing.assert_allclose(shown[: len(largest)], largest, **TIGHT, err_msg=f"{site} {s}")


def test_every_gradient_equals_pytorch(measured):
    ds, _, _, gradients, weights, _, of_streams = measured
    squares = {site: [[(of[s, site] ** 2).sum() / 5 for s in range(4)] for of in gradients] for site in SITES}
    for site in SITES:
        check(ds, "site_grad_sq", squares[site], site=site)
        check(ds, "site_log_grad_sq", np.log(squares[site]), site=site)
    over_depth = np.array([[(g**2).sum() / 5 for g in of_seed] for of_seed in of_streams])
    check(ds, "grad_sq", over_depth)
    check(ds, "log_grad_sq", np.log(over_depth))
    np.testing.assert_allclose(ds.log_grad_sq_per_seed, np.log(over_depth), rtol=1e-9)
    parts = [[[(of[s, name] ** 2).sum() for name in ("scored", "valued")] for s in (0, 2)] for of in gradients]
    shares = ds.isel(sublayer=slice(None, None, 2))
    check(shares, "site_score_share", [[a / (a + b) for a, b in of_seed] for of_seed in parts], site="A_out")
    assert np.isnan(ds.site_score_share_measured.isel(sublayer=slice(1, None, 2))).all(), "an MLP has no scores"
    for name in ds.weight.values:
        part = "mlp" if name in ("gate", "up", "down") else "attention"
        squares = [[(of[f"layers.{l}.{part}.{name}.weight"] ** 2).sum() for l in range(2)] for of in weights]
        check(ds, "weight_grad_sq", squares, weight=name)
        check(ds, "weight_log_grad_sq", np.log(squares), weight=name)


STEPS = 4
SHARED = ["model.layers=2", "model.width=24", "model.heads=4", "model.kv_heads=2", "model.mlp_width=40",
          "model.vocab=256", "model.gamma=1.25", "model.norm_eps=1e-4", "init.scheme=lecun", "input.tokens=7",
          "train.corpus=synthetic", f"train.steps={STEPS}", "train.batch=4", "train.lr=3e-3", "train.warmup=0.5",
          "train.record_sequences=3", "run.seed=5", "first_steps.neurons=16", "first_steps.replicates=2"]
TRAININGS = {
    "pre": ["model.placement=pre"],
    "peri": ["model.placement=peri", "train.clip=0.1", "model.mlp=geglu"],
    "post": ["model.placement=post", "train.schedule=constant", "train.accumulate=2", "model.mlp=gelu"],
    "deepnorm": ["model.placement=deepnorm", "train.weight_decay=0.5"],
    "inner": ["model.placement=pre", "model.inner_norm=both", "model.attention_gate=head", "model.qk_norm=head"],
    "sgd": ["model.placement=pre", "train.optimizer=sgd", "train.lr=0.5", "train.clip=0.0"],
}


def rate(train, step):
    rising = max(1, round(train["warmup"] * train["steps"]))
    if step <= rising or train["schedule"] == "constant":
        return train["lr"] * min(1.0, step / rising)
    return train["lr"] * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - rising) / (train["steps"] - rising))))


class Optimizer:
    """AdamW, or SGD with momentum, both with decoupled decay of matrices and tables."""

    def __init__(self, train, weights):
        self.train, self.weights, self.number = train, weights, 0
        self.mean, self.square = ({name: torch.zeros_like(w) for name, w in weights.items()} for _ in range(2))

    @torch.no_grad()
    def step(self, gradients):
        t, self.number = self.train, self.number + 1
        norm = math.sqrt(sum((g * g).sum().item() for g in gradients.values()))
        scale, eta = t["clip"] / norm if 0 < t["clip"] < norm else 1.0, rate(t, self.number)
        for name, weight in self.weights.items():
            g, decay = scale * gradients[name], t["weight_decay"] if name.endswith("weight") else 0.0
            weight.mul_(1 - eta * decay)
            if t["optimizer"] == "sgd":
                self.mean[name].mul_(t["momentum"]).add_(g)
                weight.sub_(eta * self.mean[name])
                continue
            self.mean[name].mul_(t["beta1"]).add_((1 - t["beta1"]) * g)
            self.square[name].mul_(t["beta2"]).add_((1 - t["beta2"]) * g * g)
            mean = self.mean[name] / (1 - t["beta1"] ** self.number)
            square = self.square[name] / (1 - t["beta2"] ** self.number)
            weight.sub_(eta * mean / (square.sqrt() + t["eps"]))


def passed(stack, windows):
    """Runs all windows. Returns the tensors of each window, the joined signals, and the gradients of the mean loss."""
    for weight in stack.weights.values():
        weight.grad = None
    values, seen = [], []
    for window in windows:
        values.append(stack.run(window[:-1], window[1:]))
        seen.append({key: x.detach() for key, x in stack.seen.items()})
    seen = {key: torch.cat([one[key] for one in seen]) for key in seen[0]}
    return values, seen, {name: gradient(w) / len(windows) for name, w in stack.weights.items()}


# Input signal by matrix; A_out for all other matrices.
READS = {"o": "inner", "down": "inner"}


@pytest.mark.parametrize("name", TRAININGS)
def test_measured_first_steps_equal_the_same_training(name, folder):
    ds = result("first-steps", SHARED, TRAININGS[name], "--seeds", "1", "--dump", "dump", code=(0, 4)).isel(placement=0)
    stack, config = of_dump(folder / "dump", "initial")
    initial = {n: w.detach().clone() for n, w in stack.weights.items()}
    batches, windows = (load(folder / "dump" / f"{n}.safetensors")["tokens"] for n in ("batches", "windows"))
    optimizer = Optimizer(config["train"], stack.weights)
    for step in range(STEPS + 1):
        if step:
            optimizer.step(passed(stack, batches[step - 1])[2])
        values, seen, _ = passed(stack, windows)
        sums = [(seen[s, "x_in"], seen[s, "B_out"]) for s in range(4)]
        expected = {
            "second_moment": [np.mean([(v[f"stream.{i}"] ** 2).mean() for v in values]) for i in range(5)],
            "branch_cosine": [(x * b).sum() / torch.sqrt((x * x).sum() * (b * b).sum()) for x, b in sums],
            "branch_second_moment": [(b * b).mean() for _, b in sums],
            "loss": np.mean([v["loss"].item() for v in values]),
        }
        gaps = {n: difference(torch.tensor(ds[f"{n}_measured"].values[step]), torch.tensor(e))
                for n, e in expected.items()}
        updates = {}
        for matrix in (n for n in initial if n.startswith("layers.") and n.endswith(".weight")):
            _, layer, module, part, _ = matrix.split(".")
            row = "attention_gate" if (module, part) == ("attention", "gate") else part
            read = seen[2 * int(layer) + (module == "mlp"), READS.get(part, "A_out")]
            change = stack.weights[matrix].detach() - initial[matrix]
            updates.setdefault(row, [0.0, 0.0])[int(layer)] = (read @ change.T).pow(2).mean().item()
        gaps |= {row: difference(torch.tensor(ds.update_measured.sel(weight=row).values[step]), torch.tensor(e))
                 for row, e in updates.items()}
        assert {n: gap for n, gap in gaps.items() if not gap <= TOLERANCE} == {}, step
    final = load(folder / "dump" / "final.safetensors")
    gaps = {n: difference(final[n].reshape(w.shape), w.detach()) for n, w in stack.weights.items()}
    assert {n: gap for n, gap in gaps.items() if not gap <= TOLERANCE} == {}
