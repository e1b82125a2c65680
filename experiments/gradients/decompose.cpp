#include "experiments/gradients/decompose.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/model/loss.h"
#include "sim/model/primitives.h"

namespace periscope {
namespace {

/// Keeps the gradient of the stream at every depth.
class StreamGradients final : public IdleGradientObserver {
 public:
  explicit StreamGradients(int sublayers) : at(static_cast<std::size_t>(sublayers) + 1) {}
  void on_input(const Tensor& dx) override { at.front() = dx; }
  void on_site(int sublayer, Signal site, const Tensor& dx) override {
    if (site == Signal::x_out) at[static_cast<std::size_t>(sublayer) + 1] = dx;
  }
  std::vector<Tensor> at;
};

double dot(const Backend& ops, const Tensor& x, const Tensor& y) {
  const std::vector<double> rows = ops.row_dots(x, y);
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

double cosine(const Backend& ops, const Tensor& x, const Tensor& y) {
  return dot(ops, x, y) / std::sqrt(dot(ops, x, x) * dot(ops, y, y));
}

}  // namespace

Tensor branch_gradient(const StackContext& c, int l, const Tensor& x, const Tensor& dsum) {
  SublayerRule rule = c.model.rule(l);
  rule.alpha = 0.0;
  rule.norm_c = false;
  ModelSpec branch = c.model;
  branch.placement = custom_placement(rule);
  IdleGradientObserver nobody;
  return sublayer_backward({c.ops, branch, c.weights, c.sequences}, l, x, dsum, {}, nobody);
}

GradientPathSizes decompose_gradient(const StackContext& c, const Tensor& input, std::span<const int> labels) {
  const ModelSpec& m = c.model;
  IdleObserver nothing;
  IdleGradientObserver nobody;
  StackTape tape;
  const Tensor output = stack_forward(c, input, nothing, &tape).output;
  const std::vector<Tensor> streams = tape.streams;
  StreamGradients g(m.sublayers());
  stack_backward(c, std::move(tape), loss_of(c, output, labels, nobody).doutput, g);

  GradientPathSizes sizes;
  Tensor skip = g.at.back();
  Tensor rest = c.ops.scale(0.0, skip);
  const auto record = [&](std::size_t i) {
    sizes.total[i] = dot(c.ops, g.at[i], g.at[i]);
    sizes.skip[i] = dot(c.ops, skip, skip);
    sizes.rest[i] = dot(c.ops, rest, rest);
    sizes.cosine[i] = cosine(c.ops, skip, g.at[i]);
    const Tensor missing = c.ops.axpby(1.0, g.at[i], -1.0, c.ops.axpby(1.0, skip, 1.0, rest));
    sizes.error = std::max(sizes.error, std::sqrt(dot(c.ops, missing, missing) / sizes.total[i]));
  };
  for (auto* values : {&sizes.total, &sizes.skip, &sizes.rest, &sizes.cosine}) values->resize(g.at.size());
  for (auto* values : {&sizes.branch, &sizes.branch_cosine}) values->resize(g.at.size() - 1);
  record(g.at.size() - 1);
  for (int l = m.sublayers() - 1; l >= 0; --l) {
    const auto i = static_cast<std::size_t>(l);
    const SublayerRule rule = m.rule(l);
    const Tensor sum = rule.norm_c ? sublayer_forward(c, l, streams[i]).sum : Tensor{};
    const auto through_c = [&](const Tensor& dx) {
      return rule.norm_c ? norm_backward(c, l, NormSite::c, sum, dx, nobody) : dx;
    };
    const Tensor branch = branch_gradient(c, l, streams[i], through_c(g.at[i + 1]));
    skip = c.ops.scale(rule.alpha, through_c(skip));
    rest = c.ops.axpby(rule.alpha, through_c(rest), 1.0, branch);
    sizes.branch[i] = dot(c.ops, branch, branch);
    sizes.branch_cosine[i] = cosine(c.ops, branch, g.at.back());
    record(i);
  }
  return sizes;
}

}  // namespace periscope
