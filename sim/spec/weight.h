#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/spec/model_spec.h"

namespace periscope {

/// Weights of a stack. Enumerator values of matrices and tables are part of random stream keys and must never change.
enum class Weight : std::uint32_t {
  q,
  k,
  v,
  o,
  gate,
  up,
  down,
  embedding,
  unembedding,
  positions,    ///< learned position table
  token_types,  ///< token-type table
  project_in,   ///< projects from the embedding table's width to the stack's
  project_out,  ///< projects from the stack's width to the unembedding's
  head_dense,   ///< matrix of BERT's head transform
  norm_a,       ///< norms A, B and C of a sublayer
  norm_b,
  norm_c,
  q_norm,  ///< QK-norms of an attention sublayer
  k_norm,
  embedding_norm,
  final_norm,
  head_norm,       ///< norm in BERT's head transform
  v_norm,          ///< norm of the values in an attention sublayer
  inner_norm,      ///< norm before W_o or W_down of a sublayer
  attention_gate,  ///< matrix W_g of an attention sublayer
  branch_scale,    ///< LayerScale's per-channel factor of a sublayer, treated as a norm that only scales
  router,          ///< matrix W_r [experts, D] of a mixture of experts
};

inline constexpr std::array<std::string_view, 27> weight_names{
    // matrices and tables
    "q", "k", "v", "o", "gate", "up", "down", "embedding", "unembedding", "positions", "token_types", "project_in",
    "project_out", "head_dense",
    // norms and, because the order is fixed by random streams, later matrices
    "norm_a", "norm_b", "norm_c", "q_norm", "k_norm", "embedding_norm", "final_norm", "head_norm", "v_norm",
    "inner_norm", "attention_gate", "branch_scale", "router"};
static_assert(are_names_of<Weight>(weight_names));

[[nodiscard]] constexpr std::string_view name_of(Weight weight) {
  return weight_names[static_cast<std::size_t>(weight)];
}

[[nodiscard]] constexpr bool is_norm(Weight weight) {
  return weight >= Weight::norm_a && weight != Weight::attention_gate && weight != Weight::router;
}
/// Norms inside modules: always RMSNorms, with initial gain 1 and no bias.
[[nodiscard]] constexpr bool is_module_norm(Weight weight) {
  return weight == Weight::q_norm || weight == Weight::k_norm || weight == Weight::v_norm ||
         weight == Weight::inner_norm;
}
/// Matrices of layers, in the order of results. `gate` and `attention_gate` are optional. Mixtures cannot run, so
/// `router` has no results.
inline constexpr std::array<Weight, 8> layer_matrices{Weight::q,    Weight::k,  Weight::v,    Weight::o,
                                                      Weight::gate, Weight::up, Weight::down, Weight::attention_gate};
[[nodiscard]] constexpr bool is_layer_matrix(Weight weight) {
  return weight <= Weight::down || weight == Weight::attention_gate || weight == Weight::router;
}
/// True for matrices of layers and norms of sublayers.
[[nodiscard]] constexpr bool is_of_layer(Weight weight) {
  return is_layer_matrix(weight) || is_module_norm(weight) || weight == Weight::norm_a || weight == Weight::norm_b ||
         weight == Weight::norm_c || weight == Weight::branch_scale;
}
[[nodiscard]] constexpr bool is_table(Weight weight) {
  return weight == Weight::embedding || weight == Weight::positions || weight == Weight::token_types;
}
/// True for the matrices that every expert of a mixture has.
[[nodiscard]] constexpr bool is_of_expert(Weight weight) {
  return weight == Weight::gate || weight == Weight::up || weight == Weight::down;
}
[[nodiscard]] constexpr bool is_of_mlp(Weight weight) { return is_of_expert(weight) || weight == Weight::router; }

/// Identifies one parameter tensor of a stack: a matrix or table W [fan_out, fan_in], a norm's gain [1, n], a bias of a
/// matrix [1, fan_out] or norm [1, n], or α [1, 1] of a pointwise norm.
struct ParameterId {
  enum class Part { matrix, gain, bias, alpha };
  int sublayer;  ///< index 0 … 2L−1; 0 for parameters outside layers
  Weight weight;
  Part part;
  int expert = -1;  ///< expert of a mixture; −1 for other parameters

  auto operator<=>(const ParameterId&) const = default;
  [[nodiscard]] int layer() const { return sublayer / 2; }
};

/// `layer` is ignored for weights outside layers.
[[nodiscard]] constexpr ParameterId matrix_id(int layer, Weight weight, int expert = -1) {
  return {is_of_layer(weight) ? 2 * layer + (is_of_mlp(weight) ? 1 : 0) : 0, weight, ParameterId::Part::matrix, expert};
}
[[nodiscard]] constexpr ParameterId gain_id(int sublayer, Weight weight) {
  return {is_of_layer(weight) ? sublayer : 0, weight, ParameterId::Part::gain};
}
/// Returns the id of the bias that belongs to a matrix or gain.
[[nodiscard]] constexpr ParameterId bias_of(ParameterId id) {
  return {id.sublayer, id.weight, ParameterId::Part::bias, id.expert};
}
/// Returns the id of the α that belongs to a gain.
[[nodiscard]] constexpr ParameterId alpha_of(ParameterId gain) {
  return {gain.sublayer, gain.weight, ParameterId::Part::alpha};
}

/// A matrix maps fan_in features to fan_out features: y = x Wᵀ with W [fan_out, fan_in].
struct WeightShape {
  int fan_out;
  int fan_in;
};

/// `layer` only matters for weights of attention. Throws std::logic_error for a norm.
WeightShape shape_of(const ModelSpec& model, Weight weight, int layer = 0);

/// Returns n, the number of features in a norm's gain. QK-norms: e or the projection's width; v_norm: e; inner norm
/// of `sublayer`: width of the input of W_o or W_down; head's norm: D'; others: D.
int norm_width(const ModelSpec& model, Weight norm, int sublayer);

/// Length of a norm's gain, bias or α: norm_width, or 1 for α.
int vector_length(const ModelSpec& model, const ParameterId& id);

/// Standard deviation of a standard normal variable truncated as in `init`; 1 without truncation.
double truncation_factor(const InitSpec& init);

/// Standard deviation of the entries of a matrix or table, from `scales` if set, else from `init` and the placement
/// (DeepNorm). A table with neither `scales` nor init.embedding_std has √input.second_moment. Throws std::logic_error
/// if `scales` lacks the matrix.
double stddev_of(const StackSpec& spec, int layer, Weight weight);

/// Standard deviation of an embedding table according to `init`: init.embedding_std, or as for a matrix of its shape.
/// The stack's own tables follow input.second_moment, which may differ.
double drawn_embedding_stddev(const StackSpec& spec);

/// Standard deviation of the bias entries of a matrix or norm; 0 without a bias.
double bias_stddev_of(const StackSpec& spec, const ParameterId& of);

/// Gains of a norm [norm_width]: from `scales` if set, else model.gamma, 1 for norms inside modules, and
/// model.layer_scale for branch_scale. Throws std::logic_error if `scales` lacks the norm or has the wrong number of
/// gains.
std::vector<double> gain_of(const StackSpec& spec, int sublayer, Weight norm);

/// α of a norm: from `scales` if set, else model.norm_alpha.
double alpha_of(const StackSpec& spec, int sublayer, Weight norm);

[[nodiscard]] constexpr NormKind kind_of(const ModelSpec& model, Weight norm) {
  if (norm == Weight::branch_scale) return NormKind::none;
  return is_module_norm(norm) ? NormKind::rms : model.norm;
}

}  // namespace periscope
