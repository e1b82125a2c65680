#include "experiments/studies/verify/statements.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>

#include "tests/support/finite_difference.h"

/// What `verify` measures is the gradient of sim/model, of the loss that the case describes.
namespace periscope::testing {
namespace {

/// The loss of a case by plain loops that know nothing of sim: biases b1 and b2 appear as such.
class PlainLoss {
 public:
  explicit PlainLoss(const verify::BoundCase& c) : c_(c) {}

  [[nodiscard]] double at(std::span<const double> down) const {
    double loss = 0.0;
    for (int t = 0; t < c_.tokens(); ++t) loss += token(t, down) / c_.tokens();
    return loss;
  }

 private:
  using Values = std::vector<double>;
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(c_.width()); }
  [[nodiscard]] Values values(const std::string& name) const {
    const auto all = c_.values(name);
    return {all.begin(), all.end()};
  }

  [[nodiscard]] Values normed(const std::string& name, Values x) const {
    const Values gain = values(name + ".gain");
    const Values bias = values(name + ".bias");
    double mean = 0.0;
    double square = 0.0;
    for (const double v : x) mean += c_.norm() == NormKind::layer ? v / c_.width() : 0.0;
    for (const double v : x) square += (v - mean) * (v - mean) / c_.width();
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = gain[i] * (x[i] - mean) / std::sqrt(square + c_.number("norm_eps")) + (bias.empty() ? 0.0 : bias[i]);
    }
    return x;
  }
  [[nodiscard]] double activation(double u) const {
    switch (activation_of(c_.mlp())) {
      case Activation::relu: return std::max(u, 0.0);
      case Activation::gelu: return 0.5 * u * std::erfc(-u / std::sqrt(2.0));
      case Activation::gelu_tanh: return 0.5 * u * (1.0 + std::tanh(0.7978845608028654 * (u + 0.044715 * u * u * u)));
      default: return u / (1.0 + std::exp(-u));
    }
  }
  [[nodiscard]] static double product(const Values& w, std::size_t row, const Values& x) {
    double sum = 0.0;
    for (std::size_t j = 0; j < x.size(); ++j) sum += w[row * x.size() + j] * x[j];
    return sum;
  }
  [[nodiscard]] double token(int t, std::span<const double> down) const {
    const std::size_t d = width();
    const auto units = static_cast<std::size_t>(c_.units());
    const std::span<const double> token = c_.values("x").subspan(static_cast<std::size_t>(t) * d, d);
    const Values x(token.begin(), token.end());
    const Values input = c_.rule().norm_a ? normed("norm_a", x) : x;
    const Values gates = values("gate"), gate_bias = values("gate_bias"), up = values("up"),
                 up_bias = values("up_bias");
    Values a = c_.has("down_bias") ? values("down_bias") : Values(d, 0.0);
    for (std::size_t i = 0; i < units; ++i) {
      const double u = product(up, i, input) + (up_bias.empty() ? 0.0 : up_bias[i]);
      const double gate = gates.empty() ? u : product(gates, i, input) + (gate_bias.empty() ? 0.0 : gate_bias[i]);
      const double h = activation(gate) * (gates.empty() ? 1.0 : u);
      for (std::size_t j = 0; j < d; ++j) a[j] += down[j * units + i] * h;
    }
    if (c_.rule().norm_b) a = normed("norm_b", a);
    Values o(d);
    for (std::size_t j = 0; j < d; ++j) o[j] = c_.rule().alpha * x[j] + c_.rule().beta * a[j];
    if (c_.rule().norm_c) o = normed("norm_c", o);
    if (c_.has_final_norm()) o = normed("final_norm", o);
    Values logits = o;
    if (c_.has_unembedding()) {
      logits.resize(static_cast<std::size_t>(c_.classes()));
      for (std::size_t v = 0; v < logits.size(); ++v) logits[v] = product(values("unembedding"), v, o);
    }
    const double largest = *std::ranges::max_element(logits);
    double sum = 0.0;
    for (const double z : logits) sum += std::exp(z - largest);
    return std::log(sum) + largest - logits[static_cast<std::size_t>(c_.labels()[static_cast<std::size_t>(t)])];
  }

  const verify::BoundCase& c_;
};

/// Small logits and a loss that moves: what finite differences can see.
bool is_tame(const verify::BoundCase& c, const verify::Evaluation& e) {
  if (c.width() < 2 || c.width() > 12 || c.units() > 12 || !(e.gradient_norm > 1e-3)) return false;
  const auto all_below = [](const std::vector<double>& values, double limit) {
    return std::ranges::all_of(values, [=](double v) { return std::abs(v) < limit; });
  };
  for (const verify::TokenFacts& t : e.tokens) {
    if (!(t.wrong_probability > 0.05)) return false;
    for (const theory::NormPass& norm : t.norms) {
      if (!(norm.mean_square + norm.eps > 0.1) || norm.gain > 10.0) return false;
    }
  }
  return all_below(e.gradient, 1e3) && all_below(e.module, 10.0) && all_below(e.hidden, 10.0);
}

TEST_CASE("finite differences of a loss by plain loops, biases as biases") {
  int checked = 0;
  int biased = 0;
  for (std::uint32_t id = 0; checked < 60 && id < 20000; ++id) {
    const verify::BoundCase c = verify::generate_case(5, id);
    const verify::Evaluation e = verify::evaluate(c);
    if (!is_tame(c, e)) continue;
    const PlainLoss loss(c);
    const std::vector<double>& point = c.parameters.at("down").values;
    if (loss.at(point) > 30.0) continue;
    ++checked;
    biased += static_cast<int>(c.has("down_bias"));
    CAPTURE(id);
    check_gradient("gradient of W2", {.loss = [&](std::span<const double> down) { return loss.at(down); },
                                      .point = point,
                                      .gradient = e.gradient,
                                      .loss_error = 1e-13 * (1.0 + loss.at(point)),
                                      .step = 1e-3});
  }
  CHECK(checked == 60);
  CHECK(biased >= 5);
}

TEST_CASE("1 - p_y keeps its digits where p_y is nearly 1") {
  verify::BoundCase c = verify::plain_case({.norm_a = false}, 2);
  c.set("x", {40.0, 0.0}, 2);
  c.set("up", {1.0, 0.0}, 2);
  c.set("down", {0.0, 0.0});
  const verify::Evaluation e = verify::evaluate(c);
  CHECK(e.tokens[0].wrong_probability == doctest::Approx(std::exp(-40.0)).epsilon(1e-14));
  CHECK(e.tokens[0].hidden == 40.0);
}

}  // namespace
}  // namespace periscope::testing
