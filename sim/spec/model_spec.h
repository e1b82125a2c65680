#pragma once

#include <algorithm>
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

/// How Hyper-Connections mix their streams in every step.
enum class StreamMixing {
  identity,  ///< no mixing
  uniform,   ///< every stream becomes the mean of all streams
  random,    ///< by a doubly stochastic matrix, drawn separately for every step
};
inline constexpr std::array<std::string_view, 3> stream_mixing_names{"identity", "uniform", "random"};
static_assert(are_names_of<StreamMixing>(stream_mixing_names));

/// Streams to which a module's output is added.
enum class StreamWrite {
  all,
  one,  ///< only the stream that the module read
};
inline constexpr std::array<std::string_view, 2> stream_write_names{"all", "one"};
static_assert(are_names_of<StreamWrite>(stream_write_names));

/// Names in configuration files, in the order of the enumerators.
inline constexpr std::array<std::string_view, 7> mlp_kind_names{"relu",  "gelu",      "silu",      "swiglu",
                                                                "geglu", "gelu_tanh", "geglu_tanh"};
static_assert(are_names_of<MlpKind>(mlp_kind_names));
inline constexpr std::array<std::string_view, 6> init_scheme_names{"normal", "lecun",  "he",
                                                                   "xavier", "scaled", "mitchell"};
static_assert(are_names_of<InitScheme>(init_scheme_names));
inline constexpr std::array<std::string_view, 3> input_kind_names{"gaussian", "tokens", "text"};
static_assert(are_names_of<InputKind>(input_kind_names));
constexpr std::string_view name_of(InputKind kind) { return input_kind_names[static_cast<std::size_t>(kind)]; }

/// Changes to the attention scores q·k of one layer, apart from the causal mask.
struct ScoreRule {
  double scale = 0.0;     ///< multiplies q·k; 0 means 1/√head_dim
  double soft_cap = 0.0;  ///< c: scaled scores z become c·tanh(z/c) before the mask; 0 means no cap
  int window = 0;  ///< token t attends to token s only if t − s < window; 0 means no limit. Causal attention only

  bool operator==(const ScoreRule&) const = default;
};

/// Attention of one layer. The default is softmax(q kᵀ/√e) with RoPE of base 10000.
struct AttentionRule {
  ScoreRule scores = {};
  /// RoPE angle per position of pair i of a head, i < e/2. Empty means base^(−2i/e) with base 10000.
  std::vector<double> rope_frequencies = {};
  double rope_scale = 1.0;  ///< multiplies queries and keys, except pairs of frequency 0 (YaRN, LongRoPE)
  int head_dim = 0;         ///< 0 means the stack's head_dim
  int kv_heads = 0;         ///< 0 means the stack's kv_heads

  bool operator==(const AttentionRule&) const = default;
};

/// The stack's input from token ids: scale · E[id] + P[position + position_offset] + the first row of the token-type
/// table. If the embedding table's width differs from the stack's, E[id] is projected first.
struct EmbeddingSpec {
  double scale = 1.0;
  int width = 0;      ///< columns of the embedding table E [V, width] and of the unembedding; 0 means the stack's width
  int positions = 0;  ///< rows of a learned position table P [positions, D]; 0 means no table
  int position_offset = 0;
  int token_types = 0;  ///< rows of a token-type table [token_types, D]; 0 means no table
};

/// Computes logits from the stack's output: a projection to embedding.width if that differs from D, BERT's transform
/// norm(φ(x Wᵀ)), the unembedding, a factor, and the soft cap.
struct HeadSpec {
  bool transform = false;
  double scale = 1.0;     ///< multiplies the output of the unembedding
  double soft_cap = 0.0;  ///< c: logits z become c·tanh(z/c); 0 means no cap

  /// True if logits differ from the output of the unembedding.
  [[nodiscard]] bool changes_scores() const { return scale != 1.0 || soft_cap > 0.0; }
};

/// Mixture of experts as the MLP of every layer: Σ_e p_e MLP_e(x) over the `per_token` experts of largest p, where p is
/// the softmax of the router's logits W_r x over all experts. Only certificates support it.
struct ExpertSpec {
  int count = 0;  ///< 0 means a single MLP without a router
  int per_token = 0;
  bool normalised = false;  ///< the weights of the chosen experts are divided by their sum
};

/// Overrides for a range of layers.
struct LayerPlacement {
  int first = 0;
  int last = 0;  ///< last layer of the range, inclusive
  std::optional<Placement> placement = {};
  std::optional<QkNorm> qk_norm = {};
  std::optional<bool> v_norm = {};
  std::optional<InnerNorm> inner_norm = {};
  std::optional<AttentionGate> attention_gate = {};
};

/// A decoder or encoder stack of `layers` layers, each an attention sublayer and an MLP sublayer (T1).
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
  double norm_alpha = 0.5;  ///< initial α of every norm that has one
  double gamma = 1.0;       ///< gain of norms A, B and C, the embedding norm and the final norm
  Placement placement = *find_placement("peri");
  /// Per-layer overrides. validate() rejects ranges that set the same key of the same layer.
  std::vector<LayerPlacement> layer_placements = {};
  int streams = 4;  ///< number of streams of placement "hyper"
  StreamMixing stream_mixing = StreamMixing::identity;
  StreamWrite stream_write = StreamWrite::all;
  double layer_scale = 0.1;  ///< initial factor of every channel in placement "layer-scale"
  bool embedding_norm = false;
  bool final_norm = true;
  QkNorm qk_norm = QkNorm::none;  ///< RMSNorm of queries and keys with gain 1, before RoPE
  bool rope = true;               ///< rotary embedding in half-split form, base 10000
  bool causal = true;
  int vocab = 512;
  bool unembedding = true;
  // Norms and gates inside modules, before per-layer overrides. Read them through the *_at(layer) functions.
  bool v_norm = false;                                 ///< RMSNorm of every head's values, with gain 1
  InnerNorm inner_norm = InnerNorm::none;              ///< RMSNorm with gain 1 before W_o, before W_down, or both
  AttentionGate attention_gate = AttentionGate::none;  ///< sigmoid gates on the heads' outputs, per head or channel
  // Set only by checkpoints; the defaults describe a plain stack.
  std::vector<AttentionRule> attention = {};  ///< one per layer; empty means the default rule
  std::vector<double> layer_scales = {};      ///< factor of the stream at every layer's end; empty means all are 1
  EmbeddingSpec embedding = {};
  HeadSpec head = {};
  ExpertSpec experts = {};
  int rope_tokens = 0;  ///< longest sequence for which `attention` has the RoPE frequencies; 0 means no limit

  /// Number of modules in all layers.
  [[nodiscard]] int sublayers() const { return 2 * layers; }
  /// Number of additions to the streams (sim/spec/wiring.h).
  [[nodiscard]] int steps() const;
  [[nodiscard]] Step step(int index) const;
  [[nodiscard]] StreamEnds ends() const;
  [[nodiscard]] int step_with(int sublayer) const { return steps() == sublayers() ? sublayer : layer_of(sublayer); }
  [[nodiscard]] Branch branch(int sublayer) const;
  /// Other sublayers that share the input of `sublayer`.
  [[nodiscard]] std::vector<int> sublayers_sharing_input(int sublayer) const;
  [[nodiscard]] double branch_scale_at(int sublayer) const;
  /// Length of a signal's curve: one entry per sublayer, or steps + 1 entries over depth starting at the stack's input.
  [[nodiscard]] std::size_t curve_length(Signal signal) const;
  [[nodiscard]] std::size_t depths() const { return static_cast<std::size_t>(steps()) + 1; }
  [[nodiscard]] int head_dim_at(int layer) const { return own_or(layer, &AttentionRule::head_dim, head_dim); }
  [[nodiscard]] int kv_heads_at(int layer) const { return own_or(layer, &AttentionRule::kv_heads, kv_heads); }
  /// Widths of all queries and of all keys of a layer.
  [[nodiscard]] int query_width(int layer) const { return heads * head_dim_at(layer); }
  [[nodiscard]] int key_width(int layer) const { return kv_heads_at(layer) * head_dim_at(layer); }
  /// Largest value of `of(layer)` over all layers.
  template <class Of>
  [[nodiscard]] auto largest(const Of& of) const {
    auto most = of(0);
    for (int layer = 1; layer < layers; ++layer) most = std::max(most, of(layer));
    return most;
  }
  [[nodiscard]] int largest_query_width() const {
    return largest([this](int layer) { return query_width(layer); });
  }
  /// Norms and scales of a sublayer (T1); for `more_layers` see step_of.
  [[nodiscard]] SublayerRule rule(int sublayer, int more_layers = 0) const;
  /// Factor of the stream after a sublayer; rule() multiplies α and β by it.
  [[nodiscard]] double output_scale(int sublayer) const {
    return layer_scales.empty() || is_attention(sublayer) ? 1.0
                                                          : layer_scales[static_cast<std::size_t>(layer_of(sublayer))];
  }
  /// Longest sequence that the model supports; 0 means no limit.
  [[nodiscard]] int max_tokens() const {
    return embedding.positions > 0 ? embedding.positions - embedding.position_offset : rope_tokens;
  }
  /// Width of the embedding table and of the unembedding.
  [[nodiscard]] int embedding_width() const { return embedding.width > 0 ? embedding.width : width; }
  [[nodiscard]] bool projects_embedding() const { return embedding_width() != width; }
  [[nodiscard]] ScoreRule scores_at(int layer) const;
  [[nodiscard]] QkNorm qk_norm_at(int layer) const { return at_layer(layer, &LayerPlacement::qk_norm, qk_norm); }
  /// RMSNorm of every key/value head's values.
  [[nodiscard]] bool v_norm_at(int layer) const { return at_layer(layer, &LayerPlacement::v_norm, v_norm); }
  /// Sub-LN: RMSNorm of the input of W_o (all H·e features together) or of W_down (h features).
  [[nodiscard]] bool inner_norm_at(int sublayer) const {
    const InnerNorm where = inner_norm_of(layer_of(sublayer));
    return where == InnerNorm::both || where == (is_attention(sublayer) ? InnerNorm::o : InnerNorm::down);
  }
  [[nodiscard]] InnerNorm inner_norm_of(int layer) const {
    return at_layer(layer, &LayerPlacement::inner_norm, inner_norm);
  }
  /// Gates heads' outputs by σ(W_g A_out), one gate per head or per channel, before the inner norm and W_o.
  [[nodiscard]] AttentionGate attention_gate_at(int layer) const {
    return at_layer(layer, &LayerPlacement::attention_gate, attention_gate);
  }
  /// Rows of a layer's W_g: H or H·e; 0 without gates.
  [[nodiscard]] int gates_at(int layer) const;
  /// RoPE frequencies of a layer, with the default filled in; empty without RoPE.
  [[nodiscard]] std::vector<double> rope_frequencies_at(int layer) const;
  /// Factor of every pair of a head's queries and keys [e/2]; empty if all are 1.
  [[nodiscard]] std::vector<double> rope_gains_at(int layer) const;
  /// Sublayers are numbered like their weights: attention, then MLP, of every layer. step() gives their order.
  [[nodiscard]] static ModuleKind kind_of(int sublayer) {
    return sublayer % 2 == 0 ? ModuleKind::attention : ModuleKind::mlp;
  }
  [[nodiscard]] static bool is_attention(int sublayer) { return kind_of(sublayer) == ModuleKind::attention; }
  [[nodiscard]] static int layer_of(int sublayer) { return sublayer / 2; }
  /// True if some step has a norm. Includes pointwise norms, which also stop fluctuations from compounding over depth.
  [[nodiscard]] bool has_norms() const;

 private:
  [[nodiscard]] int own_or(int layer, int AttentionRule::*field, int value) const {
    const int own = attention.empty() ? 0 : attention[static_cast<std::size_t>(layer)].*field;
    return own > 0 ? own : value;
  }
  template <class Value>
  [[nodiscard]] Value at_layer(int layer, std::optional<Value> LayerPlacement::*field, Value value) const {
    for (const LayerPlacement& range : layer_placements) {
      if (range.*field && range.first <= layer && layer <= range.last) value = *(range.*field);
    }
    return value;
  }
};

inline constexpr double rope_base = 10000.0;

/// base^(−2i/head_dim) for i < head_dim/2.
[[nodiscard]] std::vector<double> rope_frequencies(int head_dim, double base);

[[nodiscard]] constexpr bool is_gated(MlpKind kind) {
  return kind == MlpKind::swiglu || kind == MlpKind::geglu || kind == MlpKind::geglu_tanh;
}
[[nodiscard]] Activation activation_of(MlpKind kind);

/// Initialisation of weight matrices: independent N(0, variance) entries.
struct InitSpec {
  InitScheme scheme = InitScheme::normal;
  double std = 0.02;         ///< standard deviation of scheme "normal"
  double factor = 1.0;       ///< variance is factor / fan_in in scheme "scaled"
  double qk_factor = 1.0;    ///< multiplies the standard deviation of W_q and W_k; 0 gives uniform attention (T3)
  double o_factor = 1.0;     ///< multiplies the standard deviation of W_o
  double down_factor = 1.0;  ///< multiplies the standard deviation of W_down
  /// Multiplies the standard deviation of W_o and W_down; replaces o_factor and down_factor.
  DepthExpression residual = 1.0;
  /// Truncation point c: multiplies every standard deviation by the standard deviation of N(0, 1) truncated at ±c.
  /// Entries stay Gaussian. 0 means 3 for scheme "mitchell", else no truncation.
  double truncation = 0.0;
  /// Standard deviations of the embedding table, the unembedding and the position table. If nullopt, the embedding
  /// follows input.second_moment, the unembedding follows `scheme`, and positions follow the embedding.
  std::optional<double> embedding_std = {};
  std::optional<double> head_std = {};
  std::optional<double> position_std = {};
};

/// A text file, as read by a run.
struct TextFile {
  std::string head;        ///< first 64 MiB of the file, or the whole file if it is shorter
  std::uint64_t size = 0;  ///< size of the whole file in bytes
  std::string sha256;      ///< SHA-256 of the whole file, in hexadecimal
};

/// The stack's input.
struct InputSpec {
  InputKind kind = InputKind::gaussian;
  int tokens = 128;            ///< sequence length T
  double second_moment = 1.0;  ///< mean square of the input's entries; for tokens and text, of the embedding table
  double correlation = 0.0;    ///< correlation between entries of two tokens; gaussian only
  std::string path;            ///< text only: path of the file; its first T bytes are the input
  std::shared_ptr<const TextFile> text = nullptr;  ///< text only: the file, read once for all seeds
};

struct WeightScales;  // sim/spec/weight_scales.h

/// The input of simulation and theory.
struct StackSpec {
  ModelSpec model;
  InitSpec init;
  InputSpec input;
  /// Scales of individual matrices and norms. If set, they replace `init`, `model.gamma` and `input.second_moment`.
  std::shared_ptr<const WeightScales> scales = nullptr;
  std::string recipe = {};    ///< value of model.recipe, which sets keys of all three sections; "" without a recipe
  std::string label = {};     ///< name of the stack in results; "" means the placement's name
  std::string settings = {};  ///< keys that differ between the run's stacks, as JSON; "" for a single stack
};

/// Applies the placement's defaults: final norm, embedding norm, norms inside modules, and norm kind.
void take_defaults(const Placement& placement, ModelSpec& model);

/// Throws ConfigError, which names the key, if a shape or value is invalid.
void validate(const StackSpec& spec);

/// A model size of Table 4 of the Peri-LN paper. Hidden width 4·D and 8 key/value heads are inferred from the parameter
/// counts in the names. 70B has the shape of public models such as Llama 2.
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
