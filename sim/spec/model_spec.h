#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/spec/norm_kind.h"
#include "sim/spec/placement.h"

namespace periscope {

enum class Activation { relu, gelu, silu, gelu_tanh, sigmoid };
enum class MlpKind { relu, gelu, silu, swiglu, geglu, gelu_tanh, geglu_tanh };
enum class InitScheme { normal, lecun, he, xavier, scaled, mitchell };
enum class InputKind { gaussian, tokens, text };

/// How Hyper-Connections mix their streams at every step.
enum class StreamMixing {
  identity,  ///< not at all
  uniform,   ///< each becomes the mean of all
  random,    ///< by a doubly stochastic matrix, another one at every step
};
inline constexpr std::array<std::string_view, 3> stream_mixing_names{"identity", "uniform", "random"};
static_assert(are_names_of<StreamMixing>(stream_mixing_names));

/// Which streams a module's output is added to.
enum class StreamWrite {
  all,
  one,  ///< the one that the module read
};
inline constexpr std::array<std::string_view, 2> stream_write_names{"all", "one"};
static_assert(are_names_of<StreamWrite>(stream_write_names));

/// The names that configuration files use, in the order of the enumerators.
inline constexpr std::array<std::string_view, 7> mlp_kind_names{"relu",  "gelu",      "silu",      "swiglu",
                                                                "geglu", "gelu_tanh", "geglu_tanh"};
static_assert(are_names_of<MlpKind>(mlp_kind_names));
inline constexpr std::array<std::string_view, 6> init_scheme_names{"normal", "lecun",  "he",
                                                                   "xavier", "scaled", "mitchell"};
static_assert(are_names_of<InitScheme>(init_scheme_names));
inline constexpr std::array<std::string_view, 3> input_kind_names{"gaussian", "tokens", "text"};
static_assert(are_names_of<InputKind>(input_kind_names));
constexpr std::string_view name_of(InputKind kind) { return input_kind_names[static_cast<std::size_t>(kind)]; }

/// How one layer's attention changes its scores q·k, apart from the causal mask.
struct ScoreRule {
  double scale = 0.0;     ///< factor on q·k; 0: 1/√head_dim
  double soft_cap = 0.0;  ///< c: the scaled scores z become c·tanh(z/c) before the mask; 0: they stay
  int window = 0;         ///< token t sees token s only if t − s < window; 0: no such limit. Causal attention only
};

/// One layer's attention. The default is softmax(q kᵀ/√e) with RoPE of base 10000.
struct AttentionRule {
  ScoreRule scores = {};
  /// RoPE: the angle per position of pair i of a head, i < e/2. Empty: base^(−2i/e) with base 10000.
  std::vector<double> rope_frequencies = {};
};

/// The stack's input from token ids: scale · E[id], projected if the table is not as wide as the stack, plus
/// P[position + position_offset], plus the first row of the token-type table.
struct EmbeddingSpec {
  double scale = 1.0;
  int width = 0;      ///< of the table E [V, width], and of the head's matrix; 0: the stack's
  int positions = 0;  ///< rows of a learned position table P [positions, D]; 0: none
  int position_offset = 0;
  int token_types = 0;  ///< rows of a token-type table [token_types, D]; 0: none
};

/// From the stack's output to the logits: a projection to embedding.width if that is not D, BERT's transform
/// norm(φ(x Wᵀ)), the unembedding, and the soft cap.
struct HeadSpec {
  bool transform = false;
  double soft_cap = 0.0;  ///< c: the logits z become c·tanh(z/c); 0: they stay
};

/// Overrides in a range of layers.
struct LayerPlacement {
  int first = 0;
  int last = 0;  ///< inclusive
  std::optional<Placement> placement = {};
  std::optional<QkNorm> qk_norm = {};
  std::optional<bool> v_norm = {};
  std::optional<InnerNorm> inner_norm = {};
  std::optional<AttentionGate> attention_gate = {};
};

/// A decoder or encoder stack: `layers` times an attention sublayer and an MLP sublayer (T1).
/// Widths: D = width, H = heads, e = head_dim, h = mlp_width, V = vocab.
struct ModelSpec {
  int layers = 24;
  int width = 1024;
  int heads = 8;
  int kv_heads = 8;
  int head_dim = 128;
  MlpKind mlp = MlpKind::swiglu;
  int mlp_width = 4096;
  NormKind norm = NormKind::rms;
  double norm_eps = 1e-6;
  double norm_alpha = 0.5;  ///< α of every norm of a kind that has one, at initialisation
  double gamma = 1.0;       ///< gain of norms A, B, C, of the embedding norm and of the final norm
  Placement placement = *find_placement("peri");
  /// Per-layer overrides. validate() rejects ranges that set the same key of the same layer.
  std::vector<LayerPlacement> layer_placements = {};
  int streams = 4;  ///< of placement "hyper"
  StreamMixing stream_mixing = StreamMixing::identity;
  StreamWrite stream_write = StreamWrite::all;
  double layer_scale = 0.1;  ///< of placement "layer-scale": initial factor of every channel
  bool embedding_norm = false;
  bool final_norm = true;
  QkNorm qk_norm = QkNorm::none;  ///< an RMSNorm with gain 1, before RoPE
  bool rope = true;               ///< half-split form, base 10000
  bool causal = true;
  int vocab = 512;
  bool unembedding = true;
  // Norms and gates inside modules. Uses ask qk_norm_at, v_norm_at, inner_norm_at and attention_gate_at.
  bool v_norm = false;                                 ///< an RMSNorm with gain 1 of each head's values
  InnerNorm inner_norm = InnerNorm::none;              ///< an RMSNorm with gain 1 before W_o, before W_down, or both
  AttentionGate attention_gate = AttentionGate::none;  ///< a sigmoid gate on every head's output, or on its channels
  // Set by checkpoints only; the defaults are a plain stack.
  std::vector<AttentionRule> attention = {};  ///< of every layer; empty: the plain rule
  EmbeddingSpec embedding = {};
  HeadSpec head = {};

  /// The modules of all layers, two of each.
  [[nodiscard]] int sublayers() const { return 2 * layers; }
  /// The additions to the streams (sim/spec/wiring.h).
  [[nodiscard]] int steps() const;
  [[nodiscard]] Step step(int index) const;
  [[nodiscard]] StreamEnds ends() const;
  [[nodiscard]] int step_with(int sublayer) const { return steps() == sublayers() ? sublayer : layer_of(sublayer); }
  [[nodiscard]] Branch branch(int sublayer) const;
  /// The other sublayers with the same input.
  [[nodiscard]] std::vector<int> reading_with(int sublayer) const;
  [[nodiscard]] double branch_scale_at(int sublayer) const;
  /// Length of a signal's curve: steps + 1 over depth, from the stack's input on, or one entry per sublayer.
  [[nodiscard]] std::size_t curve_length(Signal signal) const;
  [[nodiscard]] std::size_t depths() const { return static_cast<std::size_t>(steps()) + 1; }
  [[nodiscard]] int query_width() const { return heads * head_dim; }
  [[nodiscard]] int key_width() const { return kv_heads * head_dim; }
  /// T1's rule of a sublayer; `more_layers` as step_of has it.
  [[nodiscard]] SublayerRule rule(int sublayer, int more_layers = 0) const;
  /// Of the embedding table and of the unembedding.
  [[nodiscard]] int embedding_width() const { return embedding.width > 0 ? embedding.width : width; }
  [[nodiscard]] bool projects_embedding() const { return embedding_width() != width; }
  [[nodiscard]] ScoreRule scores_at(int layer) const;
  [[nodiscard]] QkNorm qk_norm_at(int layer) const { return at_layer(layer, &LayerPlacement::qk_norm, qk_norm); }
  /// An RMSNorm of every key/value head's values.
  [[nodiscard]] bool v_norm_at(int layer) const { return at_layer(layer, &LayerPlacement::v_norm, v_norm); }
  /// Sub-LN: an RMSNorm of the input of W_o (H·e features of all heads together) or of W_down (h).
  [[nodiscard]] bool inner_norm_at(int sublayer) const {
    const InnerNorm own = inner_norm_of(layer_of(sublayer));
    return own == InnerNorm::both || own == (is_attention(sublayer) ? InnerNorm::o : InnerNorm::down);
  }
  [[nodiscard]] InnerNorm inner_norm_of(int layer) const {
    return at_layer(layer, &LayerPlacement::inner_norm, inner_norm);
  }
  /// mixed ∘ σ(W_g A_out), before the inner norm and W_o; a gate per head, or per channel of a head.
  [[nodiscard]] AttentionGate attention_gate_at(int layer) const {
    return at_layer(layer, &LayerPlacement::attention_gate, attention_gate);
  }
  /// The rows of a layer's W_g: H, or H·e; 0 without gates.
  [[nodiscard]] int gates_at(int layer) const;
  /// The frequencies of AttentionRule, with the default filled in; empty without RoPE.
  [[nodiscard]] std::vector<double> rope_frequencies_at(int layer) const;
  /// Sublayers are numbered by weights: attention, then MLP, of every layer. Their order in the dataflow is step()'s.
  [[nodiscard]] static ModuleKind kind_of(int sublayer) {
    return sublayer % 2 == 0 ? ModuleKind::attention : ModuleKind::mlp;
  }
  [[nodiscard]] static bool is_attention(int sublayer) { return kind_of(sublayer) == ModuleKind::attention; }
  [[nodiscard]] static int layer_of(int sublayer) { return sublayer / 2; }
  /// True if some step has a norm. A pointwise one counts: it bounds a branch and its gradient, so that fluctuations
  /// add up and do not multiply.
  [[nodiscard]] bool has_norms() const;

 private:
  template <class Value>
  [[nodiscard]] Value at_layer(int layer, std::optional<Value> LayerPlacement::*field, Value everywhere) const {
    for (const LayerPlacement& range : layer_placements) {
      if (range.*field && range.first <= layer && layer <= range.last) everywhere = *(range.*field);
    }
    return everywhere;
  }
};

inline constexpr double rope_base = 10000.0;

/// base^(−2i/head_dim) for i < head_dim/2.
[[nodiscard]] std::vector<double> rope_frequencies(int head_dim, double base);

[[nodiscard]] constexpr bool is_gated(MlpKind kind) {
  return kind == MlpKind::swiglu || kind == MlpKind::geglu || kind == MlpKind::geglu_tanh;
}
[[nodiscard]] Activation activation_of(MlpKind kind);

/// How weight matrices are drawn: independent N(0, variance).
struct InitSpec {
  InitScheme scheme = InitScheme::normal;
  double std = 0.02;         ///< of scheme "normal"
  double factor = 1.0;       ///< of scheme "scaled": variance factor / fan_in
  double qk_factor = 1.0;    ///< on the standard deviation of W_q and W_k; 0 gives uniform attention (T3)
  double o_factor = 1.0;     ///< on the standard deviation of W_o
  double down_factor = 1.0;  ///< on the standard deviation of W_down
  /// On the standard deviation of W_o and W_down, instead of o_factor and down_factor.
  DepthExpression residual = 1.0;
  /// In standard deviations: every standard deviation is multiplied by that of a standard normal number truncated
  /// there; entries stay Gaussian. 0: 3 for scheme "mitchell", else none.
  double truncation = 0.0;
  /// Standard deviations of the embedding table, the unembedding and the position table. nullopt: the embedding follows
  /// input.second_moment, the unembedding `scheme`, positions the embedding.
  std::optional<double> embedding_std = {};
  std::optional<double> head_std = {};
  std::optional<double> position_std = {};
};

/// A text file when a run read it.
struct TextFile {
  std::string head;        ///< the first 64 MiB, or all
  std::uint64_t size = 0;  ///< of the whole file, bytes
  std::string sha256;      ///< of the whole file, in hex
};

/// The stack's input.
struct InputSpec {
  InputKind kind = InputKind::gaussian;
  int tokens = 128;            ///< T
  double second_moment = 1.0;  ///< of the input's entries; with tokens and text: of the embedding table's
  double correlation = 0.0;    ///< of two tokens' entries; gaussian only
  std::string path;            ///< text only: the first T bytes of this file
  std::shared_ptr<const TextFile> text = nullptr;  ///< text only: the file, read once for all seeds
};

struct WeightScales;  // sim/spec/weight_scales.h

/// The input of simulation and theory.
struct StackSpec {
  ModelSpec model;
  InitSpec init;
  InputSpec input;
  /// Of single matrices and norms, instead of `init`, `model.gamma` and `input.second_moment`.
  std::shared_ptr<const WeightScales> scales = nullptr;
  std::string recipe = {};    ///< model.recipe, which has set keys of all three; "" for none
  std::string label = {};     ///< the stack's name in results; "": its placement
  std::string settings = {};  ///< the keys that differ between the run's stacks, as JSON; "" for a single stack
};

/// Sets the final norm, and the embedding norm, norms inside modules and norm kind where the placement has them.
void take_defaults(const Placement& placement, ModelSpec& model);

/// Throws ConfigError that names the key of an impossible shape or value.
void validate(const StackSpec& spec);

/// A model size of the Peri-LN paper's Table 4. Hidden width 4·D and 8 key/value heads are inferred from the parameter
/// counts in the names. 70B is the shape of public models such as Llama 2.
struct Preset {
  std::string_view name;
  int layers, width, heads, kv_heads, head_dim, mlp_width;

  constexpr void set_shape(ModelSpec& m) const {
    m.layers = layers;
    m.width = width;
    m.heads = heads;
    m.kv_heads = kv_heads;
    m.head_dim = head_dim;
    m.mlp_width = mlp_width;
  }
};
inline constexpr std::array<Preset, 4> presets{
    Preset{"400M", 24, 1024, 8, 8, 128, 4096},
    Preset{"1.5B", 24, 2048, 16, 8, 128, 8192},
    Preset{"3.2B", 32, 2560, 16, 8, 160, 10240},
    Preset{"70B", 80, 8192, 64, 8, 128, 28672},
};

}  // namespace periscope
