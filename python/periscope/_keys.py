"""The keys of a configuration, by sections. Made by generate.py from the key tables of the program."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Placement = str | Mapping[str, Any]
"""A name, as "peri", or a table: {"A": True, "B": False, "alpha": 1.0}."""


class AgreementPowerLimitKeys(TypedDict, total=False):
    """The section [agreement.power_limit]."""

    second_moment: float
    """largest relative error that a verdict may leave unnoticed, else it is inconclusive (T22). Default: 0.2."""
    variance: float
    """the same of the variance. Default: 0.2."""
    token_cosine: float
    """the same of the token cosine, absolute. Default: 0.2."""
    log_grad_sq: float
    """the same of the logarithm of a squared gradient [nat]. Default: 0.5."""
    score_share: float
    """the same of the score path's share, absolute. Default: 0.1."""


class ModelKeys(TypedDict, total=False):
    """The section [model]."""

    preset: str | Sequence[str]
    """400M, 1.5B or 3.2B: fills the shape; explicit keys win."""
    recipe: str | Sequence[str]
    """a family of models, as olmo2: fills placement, norms, MLP, RoPE, init and input.second_moment; explicit keys
    win."""
    layers: int | Sequence[int]
    """layers, each attention and MLP. Default: 24."""
    width: int | Sequence[int]
    """D. Default: 1024."""
    heads: int | Sequence[int]
    """query heads. Default: 8."""
    kv_heads: int | Sequence[int]
    """key/value heads; divides heads. Default: heads."""
    head_dim: int | Sequence[int]
    """e. Default: width/heads."""
    mlp: (
        Literal["relu", "gelu", "silu", "swiglu", "geglu", "gelu_tanh", "geglu_tanh"]
        | Sequence[Literal["relu", "gelu", "silu", "swiglu", "geglu", "gelu_tanh", "geglu_tanh"]]
    )
    """relu, gelu, silu, swiglu, geglu, gelu_tanh, geglu_tanh. Default: "swiglu"."""
    mlp_width: int | Sequence[int]
    """hidden width h. Default: 4*width."""
    norm: Literal["rms", "layer", "dyt", "derf", "l2"] | Sequence[Literal["rms", "layer", "dyt", "derf", "l2"]]
    """rms, layer, dyt: tanh(alpha x), derf: erf(alpha x), l2: x over its length; QK-norms are RMSNorms. Default: by
    placement."""
    norm_eps: float | Sequence[float]
    """epsilon of every norm. Default: 1e-6."""
    norm_alpha: float | Sequence[float]
    """alpha of norms dyt and derf at initialisation. Default: 0.5."""
    gamma: float | Sequence[float]
    """gain of norms A, B, C, embedding and final; QK-norm gains are 1. Default: 1.0."""
    placement: Placement | Sequence[Placement]
    """a name, a table {A, B, C, alpha, beta} or {attention, mlp}, or a list of these. Default: "peri"."""
    layer_placement: Sequence[Mapping[str, Any]]
    """what ranges of layers have instead: [{layers = "0-7", placement = ..., qk_norm = ..., v_norm, inner_norm,
    attention_gate}, ...]."""
    streams: int | Sequence[int]
    """of placement hyper. Default: 4."""
    stream_mixing: Literal["identity", "uniform", "random"] | Sequence[Literal["identity", "uniform", "random"]]
    """of placement hyper at every step: identity, uniform, random (doubly stochastic). Default: "identity"."""
    stream_write: Literal["all", "one"] | Sequence[Literal["all", "one"]]
    """of placement hyper: a module is added to all streams, or to the one that it read. Default: "all"."""
    layer_scale: float | Sequence[float]
    """of placement layer-scale: what the factor of every channel begins as. Default: 0.1."""
    embedding_norm: bool | Sequence[bool]
    """norm on the stack's input. Default: by placement."""
    final_norm: bool | Sequence[bool]
    """norm on the stack's output. Default: by placement."""
    qk_norm: Literal["none", "head", "full"] | Sequence[Literal["none", "head", "full"]]
    """none, head, full: RMSNorm of queries and keys before RoPE. Default: by placement."""
    v_norm: bool | Sequence[bool]
    """RMSNorm with gain 1 of every head's values. Default: by placement."""
    inner_norm: Literal["none", "o", "down", "both"] | Sequence[Literal["none", "o", "down", "both"]]
    """none, o, down, both: RMSNorm with gain 1 of all heads' output before W_o, of the MLP's hidden vector before
    W_down. Default: by placement."""
    attention_gate: Literal["none", "head", "channel"] | Sequence[Literal["none", "head", "channel"]]
    """none, head, channel: sigmoid gates W_g A_out on the heads' outputs, one per query head or per channel.
    Default: "none"."""
    rope: bool | Sequence[bool]
    """rotary embedding, half-split, base 10000. Default: true."""
    causal: bool | Sequence[bool]
    """causal mask. Default: true."""
    vocab: int | Sequence[int]
    """V. Default: 512."""
    unembedding: bool | Sequence[bool]
    """unembedding matrix after the final norm. Default: true."""


class InitKeys(TypedDict, total=False):
    """The section [init]."""

    scheme: (
        Literal["normal", "lecun", "he", "xavier", "scaled", "mitchell"]
        | Sequence[Literal["normal", "lecun", "he", "xavier", "scaled", "mitchell"]]
    )
    """normal std; lecun 1/fan_in, he 2/fan_in, xavier 2/(in+out), scaled factor/fan_in, mitchell 1/fan_in and 1/(2
    fan_in (layer+1)) of W_o and W_down, layer from 0. Default: "normal"."""
    std: float | Sequence[float]
    """standard deviation of scheme normal. Default: 0.02."""
    factor: float | Sequence[float]
    """factor of scheme scaled. Default: 1.0."""
    qk_factor: float | Sequence[float]
    """on the standard deviation of W_q and W_k; 0: uniform attention. Default: 1.0."""
    o_factor: float | Sequence[float]
    """on the standard deviation of W_o. Default: 1.0."""
    down_factor: float | Sequence[float]
    """on the standard deviation of W_down alone; init.residual scales W_o too. Default: 1.0."""
    residual: float | str | Sequence[float | str]
    """on the standard deviation of W_o and W_down, in place of o_factor and down_factor: a number, or an expression
    in L (layers) and l (additions to the stream before, from 0), as "1/sqrt(2L)" of GPT-2. Default: 1.0."""
    truncation: float | Sequence[float]
    """where entries are truncated, in standard deviations: multiplies every standard deviation by the one of a
    standard normal number truncated there; entries stay Gaussian; 0: 3 with scheme mitchell, else none. Default:
    0.0."""
    embedding_std: float | Sequence[float]
    """standard deviation of the embedding table; sets input.second_moment. Default: by input.second_moment."""
    head_std: float | Sequence[float]
    """standard deviation of the unembedding. Default: by scheme."""
    position_std: float | Sequence[float]
    """standard deviation of learned positions, which count in input.second_moment. Default: embedding_std."""


class InputKeys(TypedDict, total=False):
    """The section [input]."""

    kind: Literal["gaussian", "tokens", "text"] | Sequence[Literal["gaussian", "tokens", "text"]]
    """gaussian, tokens (random ids), text (bytes of a file), or a list of these. Default: "gaussian"."""
    tokens: int | Sequence[int]
    """T. Default: 128."""
    second_moment: float | Sequence[float]
    """of the input's entries; tokens, text: of the embedding table's. Default: 1.0."""
    correlation: float | Sequence[float]
    """of two tokens' entries, 0 to 1; gaussian only. Default: 0.0."""
    path: str | Sequence[str]
    """text only: the file. Default: ""."""


class RunKeys(TypedDict, total=False):
    """The section [run]."""

    seed: int
    """first seed. Default: 0."""
    seeds: int
    """number of seeds; a verdict needs 4. Default: 8."""
    threads: int
    """0: OMP_NUM_THREADS, else all cores. Default: 0."""
    device: str
    """cpu, reference, cuda, cuda-tf32. Default: "cpu"."""
    dtype: str
    """f64, f32, bf16, f16. Default: "f32"."""
    backward: bool
    """gradients too. Default: false."""
    paired: bool
    """use the same random numbers for all stacks (twins), in simulation and prediction; false: independent random
    numbers for each stack, keyed by its label and kind of input (propagate, theory, power). Default: true."""
    weights: Literal["auto", "dense", "matrix-free"]
    """dense; matrix-free: without matrices, exact in law (T21; propagate, ladder, gradients); auto: matrix-free
    where stacks are large and that costs at most half. Default: "auto"."""
    out: str
    """folder for result files. Default: ""."""


class TheoryKeys(TypedDict, total=False):
    """The section [theory]."""

    tolerance: float
    """wanted standard error of the prediction (sampled attention patterns); where it is given, whatever that costs.
    Default: 0.01."""
    gradient_tolerance: float
    """wanted standard error of the logarithm of every predicted squared gradient; where it is given, whatever that
    costs. Default: 0.03."""
    fault: Literal[
        "none", "beta0", "attention-output", "no-score-path", "query-gradient", "depth-constant", "without-v-norm",
        "without-gate", "norm-alpha"
    ]
    """a planted mistake: beta0, attention-output, no-score-path, query-gradient, depth-constant, without-v-norm,
    without-gate, norm-alpha. Default: "none"."""
    finite_width: bool
    """forward statistics exactly at the stack's widths (T25; propagate), or in their limit (theory). Default: by
    command."""
    replicates: int
    """replicates of T25's chain; 0: 4 to 16 a seed, as far as they cost no more than the measurement, or seconds.
    Default: 0."""


class AgreementKeys(TypedDict, total=False):
    """The section [agreement]."""

    familywise_error: float
    """chance of a rejected cell in a run where theory is right. Default: 0.01."""
    finite_width: float
    """c of the finite-width term c*w for moments, relative (T19). Default: 0.5."""
    finite_width_cosine: float
    """c of c*w for cosines, absolute, and for the size of attention's output, relative. Default: 1.0."""
    finite_width_gradient: float
    """c of the finite-width term for logarithms of gradients (T19); measured, see docs/theory/finite_width.md.
    Default: 1.0."""
    power_limit: AgreementPowerLimitKeys
    """The section [agreement.power_limit]."""


class LadderKeys(TypedDict, total=False):
    """The section [ladder]."""

    widths: Sequence[int]
    """at least four widths, head_dim fixed, heads and mlp_width in proportion. Default: [32, 64, 128, 256]."""
    seeds: int
    """seeds per width. Default: 64."""


class GradientsKeys(TypedDict, total=False):
    """The section [gradients]."""

    layers: Sequence[int]
    """depths of `gradients depth`. Default: [4, 8, 16, 32]."""
    qk_factors: Sequence[float]
    """values of init.qk_factor in `gradients attenuation`. Default: [0.0, 1.0]."""
    down_factors: Sequence[float]
    """values of init.down_factor in `gradients crossover`. Default: [0.1, 1.0, 10.0]."""


class FormatsKeys(TypedDict, total=False):
    """The section [formats]."""

    format: Sequence[str]
    """fp32, bf16, fp16, fp8_e5m2, fp8_e4m3, int8, int4: a run in each, beside one in f64. Default: ["fp32", "bf16",
    "fp16", "fp8_e5m2", "fp8_e4m3", "int8", "int4"]."""
    covers: Sequence[str]
    """what the format holds: stream, norms, modules, inputs (of matrices), weights. Default: all; inputs, weights
    of 8 bits or fewer."""
    rest: str
    """what holds the other tensors: fp32, bf16, fp16. Default: "bf16"."""
    scale: Literal["none", "tensor", "row", "block"]
    """none, tensor, row, block (of 32): what shares a scale in formats of 8 bits or fewer; of FP8 inputs and
    weights alone. Default: "row"."""
    accumulate: Literal["f32", "format"]
    """f32, format: what rounds the partial sums of products with matrices. Default: "f32"."""
    rounding: Literal["nearest", "stochastic"]
    """nearest (ties to even), stochastic. Default: "nearest"."""
    overflow: Literal["infinity", "saturate"]
    """infinity (E4M3: not a number), saturate. Default: "infinity"."""
    loss_scale: float
    """factor of the loss in the backward pass, taken off where gradients are compared. Default: 1.0."""
    massive: float
    """factor of some features of the input in runs of their own; 1: none. Default: 1.0."""
    massive_features: int
    """how many features. Default: 1."""
    certificates: bool
    """certify the first seed's weights in every floating format (T24). Default: true."""


class TrainKeys(TypedDict, total=False):
    """The section [train]."""

    corpus: str
    """file or folder, whose bytes are the tokens; synthetic: the built-in language of known entropy rate. Default:
    "synthetic"."""
    validation: float
    """last share of the tokens, never trained on. Default: 0.1."""
    record_every: int
    """between records; steps 0, 1, 2, 5, 10, 20, 50 and the last one are recorded too [steps]. Default: 100."""
    record_sequences: int
    """held-out sequences that every record reads. Default: 4."""
    accumulate: int
    """micro-batches per step; divides batch. Default: 1."""
    steps: int
    """steps of the optimizer. Default: 1000."""
    batch: int
    """sequences of input.tokens per step. Default: 16."""
    optimizer: Literal["adamw", "sgd"]
    """adamw, or sgd with momentum; both with decoupled decay. Default: "adamw"."""
    lr: float
    """highest learning rate. Default: 0.002."""
    warmup: float
    """share of the steps in which the rate rises from 0. Default: 0.1."""
    schedule: Literal["cosine", "constant"]
    """after the warm-up: cosine down to lr/10, or constant. Default: "cosine"."""
    beta1: float
    """of adamw's mean gradient. Default: 0.9."""
    beta2: float
    """of adamw's mean square. Default: 0.95."""
    eps: float
    """of adamw, added to the root of the mean square. Default: 1e-8."""
    momentum: float
    """of sgd. Default: 0.9."""
    weight_decay: float
    """times the step's rate, on matrices and tables. Default: 0.033."""
    clip: float
    """largest norm of all gradients together; 0: none. Default: 1.0."""
    frozen: Sequence[str]
    """weights that stay as initialised, as norm_b or q. Default: []."""


class FirstStepsKeys(TypedDict, total=False):
    """The section [first_steps]."""

    neurons: int
    """largest number of rows of a matrix inside a module (of heads, or of hidden channels of an MLP) that a chain
    of the prediction (T28) draws; smaller matrices are drawn whole. Default: 512."""
    chains: int
    """independent chains of the prediction; their spread gives its standard errors. Each uses the batches of one
    seed: at least run.seeds, and by default as many, unless first_steps.predict_only. Default: 4."""
    fault: Literal["none", "no-noise", "sign-constant", "one-gate", "no-token-mean"]
    """a planted mistake: no-noise, sign-constant, one-gate, no-token-mean. Default: "none"."""
    predict_only: bool
    """the prediction alone: nothing is trained, and nothing judged. Default: false."""
    change_limit: float
    """largest error of the stream's second moment that a verdict may leave unnoticed, else it is inconclusive
    (T22); relative to the step's largest predicted change over depth. Default: 0.2."""
    cosine_limit: float
    """the same of the cosine of branch and stream, absolute. Default: 0.05."""
    update_limit: float
    """the same of the mean square of an entry of (W - W_0) h of one matrix, relative. Default: 0.5."""
    loss_limit: float
    """the same of the loss on the held-out windows, relative to its predicted change. Default: 0.2."""
