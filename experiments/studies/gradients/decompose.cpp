#include "experiments/studies/gradients/decompose.h"

#include <cmath>
#include <numeric>

#include "experiments/engine/judge/seed_rows.h"
#include "sim/measure/signal_store.h"
#include "sim/model/loss.h"
#include "sim/numerics/larger.h"

namespace periscope::gradients {
namespace {

double dot(const Backend& ops, const Tensor& x, const Tensor& y) {
  const std::vector<double> rows = ops.row_dots(x, y);
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

}  // namespace

Tensor branch_gradient(const StackContext& c, int l, const Tensor& x, const Tensor& dsum) {
  SublayerRule rule = c.model.rule(l);
  rule.alpha = 0.0;
  rule.norm_c = false;
  ModelSpec branch = c.model;
  branch.placement = custom_placement(rule);
  const StackContext alone{.ops = c.ops, .model = branch, .weights = c.weights, .sequences = c.sequences};
  StepPass pass(alone, {}, l, Pass::forward, Save::for_backward);
  (void)step_forward(pass, {x});
  return step_backward(pass, {dsum}).front();
}

GradientPathSizes decompose_gradient(const StackContext& c, const Tensor& input, std::span<const int> labels) {
  const ModelSpec& m = c.model;
  SignalStore signals(Pass::forward);
  SignalStore gradients(Pass::backward);
  backpropagate(c, input, labels, {.recorders = {&signals, &gradients}});
  // The stream and its gradient after i sublayers.
  const auto stream = [&](std::size_t i) { return signals.at(static_cast<int>(i) - 1, Signal::x_out); };
  const auto gradient = [&](std::size_t i) { return gradients.at(static_cast<int>(i) - 1, Signal::x_out); };
  const auto depths = static_cast<std::size_t>(m.sublayers()) + 1;

  GradientPathSizes sizes;
  Tensor skip = gradient(depths - 1);
  Tensor rest = c.ops.scale(0.0, skip);
  const auto record = [&](std::size_t i) {
    const Tensor whole = gradient(i);
    sizes.total[i] = dot(c.ops, whole, whole);
    sizes.skip[i] = dot(c.ops, skip, skip);
    sizes.rest[i] = dot(c.ops, rest, rest);
    const Tensor missing = c.ops.axpby(1.0, whole, -1.0, c.ops.axpby(1.0, skip, 1.0, rest));
    sizes.error = larger(sizes.error, std::sqrt(dot(c.ops, missing, missing) / sizes.total[i]));
  };
  for (auto* values : {&sizes.total, &sizes.skip, &sizes.rest}) values->resize(depths);
  sizes.branch.resize(depths - 1);
  record(depths - 1);
  for (int l = m.sublayers() - 1; l >= 0; --l) {
    const auto i = static_cast<std::size_t>(l);
    const SublayerRule rule = m.rule(l);
    SublayerPass pass(c, {}, l, Pass::forward, Save::for_backward);
    const auto through_c = [&](const Tensor& dx) {
      if (!rule.norm_c) return dx;
      (void)pass.norm(Weight::norm_c, signals.at(l, Signal::sum));  // each backward pass consumes a forward pass
      return pass.norm_backward(Weight::norm_c, dx);
    };
    const Tensor branch = branch_gradient(c, l, stream(i), through_c(gradient(i + 1)));
    skip = c.ops.scale(rule.alpha, through_c(skip));
    rest = c.ops.axpby(rule.alpha, through_c(rest), 1.0, branch);
    sizes.branch[i] = dot(c.ops, branch, branch);
    record(i);
  }
  return sizes;
}

}  // namespace periscope::gradients
