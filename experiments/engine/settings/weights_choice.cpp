#include "experiments/engine/settings/weights_choice.h"

#include <algorithm>

#include "experiments/engine/settings/at_width.h"
#include "sim/model/parameters.h"

namespace periscope::config {
namespace {

constexpr double drawn = 90.0;     ///< a normal number
constexpr double in_double = 2.0;  ///< an operation in double
/// Gram and Schmidt's process, twice and by rows, beside a Gram matrix.
constexpr double again = 6.0;

/// Factors of `rows` rows of n numbers, with their basis or without.
double factor_cost(double rows, double n, bool with_basis, DType dtype) {
  if (dtype == DType::f64) return again * in_double * rows * rows * n;
  return in_double * (rows * rows * n * (with_basis ? 2.0 : 1.0) + rows * rows * rows / 3.0);
}

}  // namespace

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
    cost.dense += passes * 2.0 * product * rows * out * in + draws * drawn * out * in;
    cost.matrix_free += passes * (2.0 * product * rows * rows * out + drawn * rows * out);
    // k, v and the attention's gate read what q reads, and up what gate reads.
    const bool shared = id.weight == Weight::k || id.weight == Weight::v || id.weight == Weight::attention_gate ||
                        (id.weight == Weight::up && is_gated(spec.model.mlp));
    if (!shared) {
      cost.matrix_free += factor_cost(rows, in, false, dtype) + (backward ? factor_cost(rows, in, true, dtype) : 0.0);
    }
    if (!backward) continue;
    cost.dense += product * (2.0 * rows * out * in + std::min(rows * rows * (out + in), 2.0 * rows * out * in));
    cost.matrix_free += factor_cost(rows, out, false, dtype) + drawn * rows * in +
                        2.0 * product * rows * rows * (out + 3.0 * in + 2.0 * rows);
  }
  return cost;
}

bool draws_matrix_free(const StackSpec& spec, const RunOptions& run) {
  if (run.weights != WeightsChoice::automatic) return run.weights == WeightsChoice::matrix_free;
  const WeightsCost cost = weights_cost(spec, run.dtype, run.backward);
  constexpr double worth_it = 2e9;
  return cost.dense > worth_it && 2.0 * cost.matrix_free <= cost.dense;
}

std::string_view weights_used(const StackSpec& spec, const RunOptions& run) {
  const WeightsChoice used = draws_matrix_free(spec, run) ? WeightsChoice::matrix_free : WeightsChoice::dense;
  return weights_choice_names[static_cast<std::size_t>(used)];
}

std::vector<std::string_view> weights_at_widths(const Config& config, const std::vector<int>& widths,
                                                std::string_view list) {
  std::vector<std::string_view> used;
  for (const int width : widths) used.push_back(weights_used(at_width(config.base, width, list), config.run));
  return used;
}

std::unique_ptr<WeightSource> random_weights(const Backend& backend, const StackSpec& spec, const RunOptions& run,
                                             std::uint64_t seed, Remember remember) {
  if (draws_matrix_free(spec, run))
    return std::make_unique<MatrixFreeWeights>(backend, spec, run.dtype, seed, remember);
  return std::make_unique<GeneratedWeights>(backend, spec, run.dtype, seed);
}

}  // namespace periscope::config
