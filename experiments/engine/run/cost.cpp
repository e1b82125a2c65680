#include "experiments/engine/run/cost.h"

#include <algorithm>

#include "sim/model/parameters.h"

namespace periscope::stacks {
namespace {

// Costs relative to one operation of an f32 matrix product, unless stated otherwise.
constexpr double per_draw = 90.0;     ///< cost of a normal random number
constexpr double in_double = 2.0;     ///< cost of an operation in double
constexpr double gram_schmidt = 6.0;  ///< cost of two row-wise Gram-Schmidt passes, relative to a Gram matrix

/// Returns the cost of factorising `rows` rows of n numbers as L Q, with or without computing the basis Q.
double factor_cost(double rows, double n, bool with_basis, DType dtype) {
  if (dtype == DType::f64) return gram_schmidt * in_double * rows * rows * n;
  return in_double * (rows * rows * n * (with_basis ? 2.0 : 1.0) + rows * rows * rows / 3.0);
}

/// Cost of one seed's products with random matrices, in operations of an f32 matrix product (about 6e10 per second and
/// core). A fixed formula, so that the choice of weights depends only on the specification.
///   dense        2 N m n per product; with gradients also the products of the recomputed layer, the input gradient and
///                the gradient's norm (by Gram matrices of N rows if cheaper); 90 operations per sampled weight.
///   matrix-free  Gram matrices of N rows in double, at half the rate, their factors, products of [N, N] with [N, m]
///                and [N, n], and N (m + n) random numbers.
struct WeightsCost {
  double dense = 0.0;
  double matrix_free = 0.0;
};
WeightsCost weights_cost(const StackSpec& spec, DType dtype, bool backward) {
  const double rows = spec.input.tokens;
  const double product = dtype == DType::f64 ? in_double : 1.0;
  WeightsCost cost;
  for (const ParameterId& id : matrices_of(spec)) {
    if (is_table(id.weight) || (!backward && !is_of_layer(id.weight))) continue;
    const WeightShape shape = shape_of(spec.model, id.weight, id.layer());
    const double out = shape.fan_out;
    const double in = shape.fan_in;
    const double passes = backward ? 2.0 : 1.0;
    const double draws = backward ? passes + (is_of_layer(id.weight) ? 1.0 : 0.0) : 1.0;
    cost.dense += passes * 2.0 * product * rows * out * in + draws * per_draw * out * in;
    cost.matrix_free += passes * (2.0 * product * rows * rows * out + per_draw * rows * out);
    // k, v and the attention gate share the input of q, and therefore its factors; up shares the factors of gate.
    const bool shared = id.weight == Weight::k || id.weight == Weight::v || id.weight == Weight::attention_gate ||
                        (id.weight == Weight::up && is_gated(spec.model.mlp));
    if (!shared) {
      cost.matrix_free += factor_cost(rows, in, false, dtype) + (backward ? factor_cost(rows, in, true, dtype) : 0.0);
    }
    if (!backward) continue;
    cost.dense += product * (2.0 * rows * out * in + std::min(rows * rows * (out + in), 2.0 * rows * out * in));
    cost.matrix_free += factor_cost(rows, out, false, dtype) + per_draw * rows * in +
                        2.0 * product * rows * rows * (out + 3.0 * in + 2.0 * rows);
  }
  return cost;
}

}  // namespace

bool draws_matrix_free(const StackSpec& spec, const config::RunOptions& run) {
  if (run.weights != config::WeightsChoice::automatic) return run.weights == config::WeightsChoice::matrix_free;
  const WeightsCost cost = weights_cost(spec, run.dtype, run.backward);
  constexpr double min_dense_cost = 2e9;
  return cost.dense > min_dense_cost && 2.0 * cost.matrix_free <= cost.dense;
}

std::string_view weights_used(const StackSpec& spec, const config::RunOptions& run) {
  const config::WeightsChoice used =
      draws_matrix_free(spec, run) ? config::WeightsChoice::matrix_free : config::WeightsChoice::dense;
  return config::weights_choice_names[static_cast<std::size_t>(used)];
}

std::unique_ptr<WeightSource> random_weights(const Backend& backend, const StackSpec& spec,
                                             const config::RunOptions& run, std::uint64_t seed,
                                             StoreFactors store_factors) {
  if (draws_matrix_free(spec, run))
    return std::make_unique<MatrixFreeWeights>(backend, spec, run.dtype, seed, store_factors);
  return std::make_unique<GeneratedWeights>(backend, spec, run.dtype, seed);
}

double pass_operations(const ModelSpec& model, int tokens, bool backward) {
  const double t = tokens;
  const double width = model.width;
  double forward = 2.0 * model.layers * t * (is_gated(model.mlp) ? 3.0 : 2.0) * model.mlp_width * width;
  for (int layer = 0; layer < model.layers; ++layer) {
    const double query = model.query_width(layer);
    forward += 4.0 * t * (width * (query + model.key_width(layer)) + t * query);
  }
  if (!backward) return forward;
  const double classes = model.unembedding ? model.vocab : model.width;
  return 4.0 * forward + 6.0 * t * classes * width;  // forward twice, gradients of signals and of matrices
}

bool is_small_pass(const ModelSpec& model, int tokens, bool backward) {
  return pass_operations(model, tokens, backward) < 2e8;
}

double reading_operations(const StackSpec& spec, const config::RunOptions& run) {
  const WeightsCost cost = weights_cost(spec, run.dtype, run.backward);
  if (draws_matrix_free(spec, run)) return cost.matrix_free;
  return std::max(pass_operations(spec.model, spec.input.tokens, run.backward), cost.dense);
}

double affordable_operations(const StackSpec& spec, const config::Config& config, int seeds) {
  constexpr double operations_of_seconds = 2e12;
  return std::max(operations_of_seconds, seeds * reading_operations(spec, config.run));
}

}  // namespace periscope::stacks
