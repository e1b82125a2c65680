#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiments/common/stacks.h"
#include "experiments/common/token_ids.h"
#include "experiments/formats/noise_budget.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"
#include "sim/numerics/rounding.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"
#include "theory/quantization.h"

/// Which roundings T27 adds up: its sum at every depth against a list of roundings that stands here, part by part.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;

/// A signal that is rounded, so many times.
struct NoiseTerm {
  Signal signal;
  double times = 1.0;
};

/// Square errors of BF16, or of INT8 with a scale for each of `rows` rows.
std::vector<double> errors_by_hand(const std::vector<double>& x, std::size_t rows, bool whole_numbers) {
  const Rounding bf16(find_tensor_format("bf16")->floating);
  const std::size_t cols = x.size() / rows;
  std::vector<double> errors;
  for (std::size_t row = 0; row < rows; ++row) {
    double most = 0.0;
    for (std::size_t j = 0; j < cols; ++j) most = std::max(most, std::abs(x[row * cols + j]));
    for (std::size_t j = 0; j < cols; ++j) {
      const double v = x[row * cols + j];
      errors.push_back(std::pow(whole_numbers ? std::remainder(v, most / 127.0) : bf16(v) - v, 2.0));
    }
  }
  return errors;
}

double sum_of_squares(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double v : x) sum += v * v;
  return sum;
}

struct PartCase {
  std::string placement;
  std::string format;
  std::vector<std::string> covers;
  double input;  ///< how often the input is rounded
  std::vector<NoiseTerm> attention;
  std::vector<NoiseTerm> mlp;
};

TEST_CASE("formats: T27's sum of every part has one term per rounding, at every depth") {
  using S = Signal;
  // Queries and keys are rounded before RoPE and after it.
  const std::vector<NoiseTerm> in_attention{{S::q, 2.0}, {S::k, 2.0}, {S::v}, {S::mixed}, {S::f_out}};
  const std::vector<NoiseTerm> in_mlp{{S::gate}, {S::up}, {S::hidden}, {S::f_out}};
  std::vector<NoiseTerm> read_in_attention = in_attention;
  std::vector<NoiseTerm> read_in_mlp = in_mlp;
  read_in_attention.push_back({S::A_out});
  read_in_mlp.push_back({S::A_out});
  const std::vector<PartCase> cases{
      {"pre", "bf16", {"stream"}, 1.0, {{S::x_out}}, {{S::x_out}}},
      {"post", "bf16", {"stream"}, 1.0, {{S::x_out, 2.0}}, {{S::x_out, 2.0}}},  // the sum too, before the norm
      {"peri", "bf16", {"norms"}, 0.0, {{S::A_out}, {S::B_out}}, {{S::A_out}, {S::B_out}}},
      {"pre", "bf16", {"norms"}, 0.0, {{S::A_out}}, {{S::A_out}}},
      {"peri", "bf16", {"modules"}, 0.0, in_attention, in_mlp},
      {"post", "int8", {"inputs"}, 0.0, {{S::A_out}, {S::mixed}}, {{S::A_out}, {S::hidden}}},
      // What modules hold is read as it is; what a norm put out is not held, and is rounded when it is read.
      {"pre", "bf16", {"modules", "inputs"}, 0.0, read_in_attention, read_in_mlp},
      {"pre", "bf16", {"weights"}, 0.0, {}, {}},
      {"peri", "int8", {"weights"}, 0.0, {}, {}}};
  for (const PartCase& c : cases) {
    INFO(c.placement, " ", c.format, " ", c.covers.front());
    FormatsConfig config = small_config(c.placement, {c.format});
    config.covers = c.covers;
    config.rest = "fp32";
    const StackSpec& spec = config.base;
    const ModelSpec& m = spec.model;
    const GeneratedWeights weights(quick(), spec, DType::f64, 5);
    const StackContext context{.ops = quick(), .model = m, .weights = weights};
    formats::TruthKeeper truth(quick(), m, true);
    formats::WeightGradientSizes sizes(quick());
    (void)backpropagate(context, stack_input(context, spec, DType::f64, 5), label_ids(spec, 5),
                        {.recorders = {&truth}, .gradients = {&sizes}});
    const formats::Holding holding = formats::holding_for(config, *find_tensor_format(c.format), 5);
    const std::vector<double> predicted = formats::predicted_sqnr(quick(), spec, truth, sizes, holding);
    REQUIRE(predicted.size() == static_cast<std::size_t>(m.sublayers()) + 1);
    const auto rows = static_cast<std::size_t>(spec.input.tokens);
    const bool whole_numbers = c.format == "int8";
    double sum = 0.0;
    for (int l = -1; l < m.sublayers(); ++l) {
      const bool attention = l % 2 == 0;
      std::vector<NoiseTerm> roundings = attention ? c.attention : c.mlp;
      if (l < 0) roundings = {{S::x_out, c.input}};
      for (const NoiseTerm& r : roundings) {
        const std::vector<double> v = errors_by_hand(truth.at({Pass::forward, r.signal}, l), rows, whole_numbers);
        const std::vector<double>& g = truth.at({Pass::backward, r.signal}, l);
        REQUIRE(v.size() == g.size());
        for (std::size_t i = 0; i < v.size(); ++i) sum += r.times * v[i] * g[i] * g[i];
      }
      if (l >= 0 && c.covers.front() == "weights") {
        const std::vector<Weight> matrices = attention ? std::vector{Weight::q, Weight::k, Weight::v, Weight::o}
                                                       : std::vector{Weight::gate, Weight::up, Weight::down};
        for (const Weight w : matrices) {
          // LeCun: σ² = 1/fan-in, which is 32, and the MLP's width of 64 for `down`.
          const std::size_t fan_in = w == Weight::down ? 64 : 32;
          const double sigma = 1.0 / std::sqrt(static_cast<double>(fan_in));
          const double noise = whole_numbers ? theory::integer_noise(127, fan_in)
                                             : theory::floating_noise(find_tensor_format("bf16")->floating, sigma);
          sum += sigma * sigma * noise * sizes.of(matrix_id(l / 2, w));
        }
      }
      const double found = predicted[static_cast<std::size_t>(l + 1)];
      INFO("depth ", l + 1, ": ", found);
      if (sum == 0.0) {
        CHECK(std::isnan(found));
        continue;
      }
      const std::vector<double>& x = truth.at({Pass::forward, S::x_out}, l);
      const double signal = sum_of_squares(x);
      const double gradient = sum_of_squares(truth.at({Pass::backward, S::x_out}, l)) / static_cast<double>(x.size());
      // Sums of a few thousand numbers in another order. Whole numbers are held in f32, which moves them by up to 2⁻²⁴
      // of 127 steps, 8e-6 of a step, beside an error of 0.29 of it: squares by 5e-5, 2e-4 dB.
      const double tolerance = whole_numbers ? 2.5e-4 : 1e-9;
      CHECK(std::abs(found - 10.0 * std::log10(signal * gradient / sum)) < tolerance);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
