#include "sim/spec/stack_keys.h"

namespace periscope {
namespace {

constexpr Range wide = from_to(1, 1 << 20);

// clang-format off
constexpr Key<ModelSpec> model_keys[] = {
    {.name = "preset", .field = {}, .meaning = "400M, 1.5B, 3.2B or 70B: sets the shape; explicit keys override it", .default_text = "-"},
    {.name = "recipe", .field = {}, .meaning = "a model family such as olmo2: sets placement, norms, MLP, RoPE, init and input.second_moment; explicit keys override it", .default_text = "-"},
    {.name = "layers", .field = &ModelSpec::layers, .range = from_to(1, 10'000), .meaning = "number of layers L, each attention and MLP"},
    {.name = "width", .field = &ModelSpec::width, .range = wide, .meaning = "width D of the stream"},
    {.name = "heads", .field = &ModelSpec::heads, .range = wide, .meaning = "number of query heads"},
    {.name = "kv_heads", .field = &ModelSpec::kv_heads, .range = wide, .meaning = "number of key/value heads; divides heads", .default_text = "heads"},
    {.name = "head_dim", .field = &ModelSpec::head_dim, .range = wide, .meaning = "width e of a head", .default_text = "width/heads"},
    {.name = "mlp", .field = word_field<&ModelSpec::mlp, mlp_kind_names>()},
    {.name = "mlp_width", .field = &ModelSpec::mlp_width, .range = wide, .meaning = "hidden width h", .default_text = "4*width"},
    {.name = "norm", .field = word_field<&ModelSpec::norm, norm_kind_names>(), .meaning = "rms, layer, dyt: tanh(alpha x), derf: erf(alpha x), l2: x over its length; QK-norms are RMSNorms", .default_text = "by placement"},
    {.name = "norm_eps", .field = &ModelSpec::norm_eps, .range = at_least(0), .meaning = "epsilon of every norm"},
    {.name = "norm_alpha", .field = &ModelSpec::norm_alpha, .range = above(0), .meaning = "alpha of norms dyt and derf at initialisation"},
    {.name = "gamma", .field = &ModelSpec::gamma, .meaning = "gain of norms A, B, C, embedding norm and final norm; QK-norm gains are 1"},
    {.name = "placement", .field = &ModelSpec::placement, .meaning = "a name, a table {A, B, C, alpha, beta} or {attention, mlp}, or a list of these", .swept = true},
    {.name = "layer_placement", .field = {}, .meaning = "overrides for ranges of layers: [{layers = \"0-7\", placement = ..., qk_norm = ..., v_norm, inner_norm, attention_gate}, ...]", .default_text = "-", .tables = true},
    {.name = "streams", .field = &ModelSpec::streams, .range = from_to(2, 8), .meaning = "number of streams of placement hyper"},
    {.name = "stream_mixing", .field = word_field<&ModelSpec::stream_mixing, stream_mixing_names>(), .meaning = "mixing of the streams of placement hyper at every step: identity, uniform, random (doubly stochastic)"},
    {.name = "stream_write", .field = word_field<&ModelSpec::stream_write, stream_write_names>(), .meaning = "streams of placement hyper to which a module's output is added: all, or the one it read"},
    {.name = "layer_scale", .field = &ModelSpec::layer_scale, .meaning = "initial factor of every channel in placement layer-scale"},
    {.name = "embedding_norm", .field = &ModelSpec::embedding_norm, .meaning = "norm on the stack's input", .default_text = "by placement"},
    {.name = "final_norm", .field = &ModelSpec::final_norm, .meaning = "norm on the stack's output", .default_text = "by placement"},
    {.name = "qk_norm", .field = word_field<&ModelSpec::qk_norm, qk_norm_names>(), .meaning = "none, head, full: RMSNorm of queries and keys before RoPE", .default_text = "by placement"},
    {.name = "v_norm", .field = &ModelSpec::v_norm, .meaning = "RMSNorm with gain 1 of every head's values", .default_text = "by placement"},
    {.name = "inner_norm", .field = word_field<&ModelSpec::inner_norm, inner_norm_names>(), .meaning = "none, o, down, both: RMSNorm with gain 1, applied to the input of W_o (all heads together), of W_down, or of both", .default_text = "by placement"},
    {.name = "attention_gate", .field = word_field<&ModelSpec::attention_gate, attention_gate_names>(), .meaning = "none, head, channel: gates sigmoid(W_g A_out) on the heads' outputs, one per query head or per channel"},
    {.name = "rope", .field = &ModelSpec::rope, .meaning = "rotary embedding, half-split, base 10000"},
    {.name = "causal", .field = &ModelSpec::causal, .meaning = "causal mask"},
    {.name = "vocab", .field = &ModelSpec::vocab, .range = from_to(1, 1 << 24), .meaning = "vocabulary size V"},
    {.name = "unembedding", .field = &ModelSpec::unembedding, .meaning = "unembedding matrix after the final norm"},
};

constexpr Key<InitSpec> init_keys[] = {
    {.name = "scheme", .field = word_field<&InitSpec::scheme, init_scheme_names>(), .meaning = "variance of entries: normal std^2, lecun 1/fan_in, he 2/fan_in, xavier 2/(fan_in+fan_out), scaled factor/fan_in, mitchell 1/fan_in, or 1/(2 fan_in (layer+1)) for W_o and W_down, layer from 0"},
    {.name = "std", .field = &InitSpec::std, .range = at_least(0), .meaning = "standard deviation of scheme normal"},
    {.name = "factor", .field = &InitSpec::factor, .range = at_least(0), .meaning = "factor of scheme scaled"},
    {.name = "qk_factor", .field = &InitSpec::qk_factor, .range = at_least(0), .meaning = "factor applied to the standard deviation of W_q and W_k; 0: uniform attention"},
    {.name = "o_factor", .field = &InitSpec::o_factor, .range = at_least(0), .meaning = "factor applied to the standard deviation of W_o"},
    {.name = "down_factor", .field = &InitSpec::down_factor, .range = at_least(0), .meaning = "factor applied to the standard deviation of W_down only; init.residual also scales W_o"},
    {.name = "residual", .field = &InitSpec::residual, .meaning = "factor applied to the standard deviation of W_o and W_down, instead of o_factor and down_factor: a number, or an expression in L (layers) and l (earlier additions to the stream, from 0), such as \"1/sqrt(2L)\" of GPT-2"},
    {.name = "truncation", .field = &InitSpec::truncation, .range = {.low = 0.1, .or_zero = true}, .meaning = "truncation point in standard deviations: every standard deviation is multiplied by the standard deviation of a standard normal variable truncated at this point; entries stay Gaussian; 0 means 3 with scheme mitchell, else no truncation"},
    {.name = "embedding_std", .field = &InitSpec::embedding_std, .range = above(0), .meaning = "standard deviation of the embedding table; sets input.second_moment", .default_text = "by input.second_moment"},
    {.name = "head_std", .field = &InitSpec::head_std, .range = above(0), .meaning = "standard deviation of the unembedding", .default_text = "by scheme"},
    {.name = "position_std", .field = &InitSpec::position_std, .range = at_least(0), .meaning = "standard deviation of learned positions; included in input.second_moment", .default_text = "embedding_std"},
};

constexpr Key<InputSpec> input_keys[] = {
    {.name = "kind", .field = word_field<&InputSpec::kind, input_kind_names>(), .meaning = "gaussian, tokens (random ids), text (bytes of a file), or a list of these", .swept = true},
    {.name = "tokens", .field = &InputSpec::tokens, .range = wide, .meaning = "sequence length T"},
    {.name = "second_moment", .field = &InputSpec::second_moment, .range = above(0), .meaning = "mean square of the input's entries, or of the embedding table for tokens and text"},
    {.name = "correlation", .field = &InputSpec::correlation, .range = from_to(0, 1), .meaning = "correlation between entries of two tokens, 0 to 1; gaussian only"},
    {.name = "path", .field = &InputSpec::path, .meaning = "text only: path of the file"},
};

constexpr Key<SublayerRule> rule_keys[] = {
    {.name = "A", .field = &SublayerRule::norm_a},
    {.name = "B", .field = &SublayerRule::norm_b},
    {.name = "C", .field = &SublayerRule::norm_c},
    {.name = "alpha", .field = &SublayerRule::alpha},
    {.name = "beta", .field = &SublayerRule::beta},
};
// clang-format on

}  // namespace

const Section<ModelSpec> model_section{"model", model_keys};
const Section<InitSpec> init_section{"init", init_keys};
const Section<InputSpec> input_section{"input", input_keys};
const Section<SublayerRule> placement_section{"model.placement", rule_keys};

}  // namespace periscope
