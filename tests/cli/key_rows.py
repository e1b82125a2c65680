"""For every configuration key: a value that differs from the value in SMALL, and the effect of the change."""

import dataclasses

# Without the finite-width chain, the finite-width term is a tolerated bias.
LIMIT = ("theory.finite_width=false",)
BACKWARD = ("run.backward=true",)
TRAIN = ("train.steps=4", "train.batch=4")
FIRST_STEPS = ("train.steps=2", "train.batch=4", "first_steps.neurons=16")


@dataclasses.dataclass(frozen=True)
class Row:
    """A changed value of a key. `changes` is the first of "measured", "predicted" and "judged" whose numbers change;
    earlier ones stay bit-identical. "all": any column may change. "nothing": no column changes."""

    value: str
    changes: str = "measured"
    base: tuple = ()  # settings under which the key has an effect
    command: str = "propagate"


ROWS = {
    "model.preset": Row("400M"),  # changes head_dim, which SMALL does not set
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
    # A tighter tolerance samples more attention patterns.
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
           ("block", "8", "formats.scale=block"), ("accumulate", "format"), ("rounding", "stochastic"),
           ("passes", "backward", "run.backward=true"), ("overflow", "saturate", "model.gamma=1e5"),
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
    "gradients.layers": Row("[1,2,5]", "all", ("gradients.layers=[1,2,4]", "theory.gradient_tolerance=0.5"),
                            "gradients depth"),
    "gradients.qk_factors": Row("[0.0,2.0]", "all", (), "gradients attenuation"),
    "gradients.down_factors": Row("[0.1,1.0,5.0]", "all", ('model.placement=["pre","peri"]',), "gradients crossover"),
}
# Keys that change no result.
HOW = {"run.threads", "run.out"}
