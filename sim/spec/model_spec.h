#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "sim/spec/placement.h"

namespace periscope {

enum class NormKind { rms, layer };
enum class Activation { relu, gelu, silu };
enum class MlpKind { relu, gelu, silu, swiglu, geglu };
enum class QkNorm { none, head, full };
enum class InitScheme { normal, lecun, he, xavier, scaled };
enum class InputKind { gaussian, tokens, text };

/// The names that configuration files use, in the order of the enumerators.
inline constexpr std::array<std::string_view, 2> norm_kind_names{"rms", "layer"};
inline constexpr std::array<std::string_view, 5> mlp_kind_names{"relu", "gelu", "silu", "swiglu", "geglu"};
inline constexpr std::array<std::string_view, 3> qk_norm_names{"none", "head", "full"};
inline constexpr std::array<std::string_view, 5> init_scheme_names{"normal", "lecun", "he", "xavier", "scaled"};
inline constexpr std::array<std::string_view, 3> input_kind_names{"gaussian", "tokens", "text"};

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
  double gamma = 1.0;  ///< gain of norms A, B, C, of the embedding norm and of the final norm
  Placement placement = *find_placement("peri");
  bool embedding_norm = false;
  bool final_norm = true;
  QkNorm qk_norm = QkNorm::none;  ///< an RMSNorm with gain 1, before RoPE
  bool rope = true;               ///< half-split form, base 10000
  bool causal = true;
  int vocab = 512;
  bool unembedding = true;

  [[nodiscard]] int sublayers() const { return 2 * layers; }
  [[nodiscard]] int query_width() const { return heads * head_dim; }
  [[nodiscard]] int key_width() const { return kv_heads * head_dim; }
  [[nodiscard]] SublayerRule rule(int sublayer) const { return placement.at(sublayer / 2, layers); }
  [[nodiscard]] static bool is_attention(int sublayer) { return sublayer % 2 == 0; }
};

inline constexpr double rope_base = 10000.0;

[[nodiscard]] constexpr bool is_gated(MlpKind kind) { return kind == MlpKind::swiglu || kind == MlpKind::geglu; }
[[nodiscard]] Activation activation_of(MlpKind kind);

/// How the weight matrices are drawn: independent N(0, variance).
struct InitSpec {
  InitScheme scheme = InitScheme::normal;
  double std = 0.02;       ///< of scheme "normal"
  double factor = 1.0;     ///< of scheme "scaled": variance factor / fan_in
  double qk_factor = 1.0;  ///< on the standard deviation of W_q and W_k; 0 gives uniform attention (T3)
};

/// What enters the stack.
struct InputSpec {
  InputKind kind = InputKind::gaussian;
  int tokens = 128;            ///< T
  double second_moment = 1.0;  ///< of the input's entries; with tokens and text: of the embedding table's
  double correlation = 0.0;    ///< of two tokens' entries; gaussian only
  std::string path;            ///< text only: the first T bytes of this file
};

/// Everything that the two wings, simulation and theory, are told.
struct StackSpec {
  ModelSpec model;
  InitSpec init;
  InputSpec input;
};

/// Throws ConfigError that names the key for a shape or a value that cannot be.
void validate(const StackSpec& spec);

/// A model size of the Peri-LN paper's Table 4. Hidden width 4·D and 8 key/value heads are not in the
/// paper: they are inferred from the parameter counts that the names state.
struct Preset {
  std::string_view name;
  int layers, width, heads, kv_heads, head_dim, mlp_width;
};
inline constexpr std::array<Preset, 3> presets{
    Preset{"400M", 24, 1024, 8, 8, 128, 4096},
    Preset{"1.5B", 24, 2048, 16, 8, 128, 8192},
    Preset{"3.2B", 32, 2560, 16, 8, 160, 10240},
};

}  // namespace periscope
