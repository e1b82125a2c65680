#include "experiments/engine/run/rescaled_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/run/token_ids.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"

namespace periscope::stacks {
namespace {

bool grows_with_branch(const ModelSpec& m, const theory::SignalBound& b) {
  if (b.sublayer < 0 || b.sublayer >= m.sublayers() || !m.rule(b.sublayer).norm_b) return false;
  return b.signal == Signal::f_out || (is_gated(m.mlp) && (b.signal == Signal::up || b.signal == Signal::hidden));
}

}  // namespace

bool grows_with_stream(const ModelSpec& m, const theory::SignalBound& b) {
  switch (b.signal) {
    case Signal::embedding:
    case Signal::input: return !m.embedding_norm;
    case Signal::x_out:
    case Signal::sum:
    case Signal::r_out:
    case Signal::B_out: return true;
    case Signal::f_out: return !m.rule(b.sublayer).norm_b;
    default: return false;
  }
}

GrowingBounds growing_bounds(const ModelSpec& m, const theory::Certificate& certificate) {
  GrowingBounds growing;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (grows_with_branch(m, b)) growing.branch = std::max(growing.branch, b.largest);
    if (grows_with_stream(m, b)) growing.stream = std::max(growing.stream, b.largest);
  }
  return growing;
}

std::string weight_words(const theory::WeightEntry& weight, double largest) {
  return fmt::format("{} = {:.6g} exceeds the format's largest number {:.6g}", weight.name, weight.value, largest);
}

double power_of_two_below(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, exponent - 1);
}

std::vector<int> random_token_ids(const ModelSpec& model, std::uint64_t seed) {
  StackSpec spec{.model = model, .init = {}, .input = {.kind = InputKind::tokens, .tokens = 32, .path = {}}};
  if (model.max_tokens() > 0) spec.input.tokens = std::min(spec.input.tokens, model.max_tokens());
  return token_ids(spec, seed);
}

std::vector<double> logits_of(const StackContext& c, std::span<const int> ids) {
  return c.ops.to_host(logits_forward(c, stack_forward(c, embedding_forward(c, ids)).output));
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    difference = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(difference, d);
    largest = std::max(largest, std::abs(a[i]));
  }
  return difference > 0.0 ? difference / largest : 0.0;
}

}  // namespace periscope::stacks
