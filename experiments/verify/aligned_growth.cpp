#include "experiments/verify/aligned_growth.h"

#include <algorithm>
#include <cmath>

#include "sim/model/stack.h"
#include "sim/reference/backend.h"

namespace periscope {
namespace {

/// x̂ x̂ᵀ for every matrix; W_up and W_down through the first of the hidden units alone.
class AlignedWeights final : public WeightSource {
 public:
  AlignedWeights(const Backend& ops, std::vector<double> direction, double gain)
      : ops_(ops), direction_(std::move(direction)), gain_(gain) {}

  [[nodiscard]] Tensor matrix(int /*layer*/, Weight weight) const override {
    const std::size_t d = direction_.size();
    std::vector<double> w(d * d, 0.0);
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = 0; j < d; ++j) {
        const double row = weight == Weight::up ? (i == 0 ? 1.0 : 0.0) : direction_[i];
        const double column = weight == Weight::down ? (j == 0 ? 1.0 : 0.0) : direction_[j];
        w[i * d + j] = row * column;
      }
    }
    return ops_.from_host(static_cast<Tensor::Index>(d), static_cast<Tensor::Index>(d), DType::f64, w);
  }
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return rows_of_matrix(ops, table, ids);
  }
  [[nodiscard]] Tensor bias(int /*layer*/, Weight /*weight*/) const override { return {}; }
  [[nodiscard]] NormWeights norm(int /*sublayer*/, NormSite /*site*/) const override {
    return {ops_.constant(1, static_cast<Tensor::Index>(direction_.size()), DType::f64, gain_), {}};
  }

 private:
  const Backend& ops_;
  std::vector<double> direction_;
  double gain_;
};

class RmsObserver final : public IdleObserver {
 public:
  explicit RmsObserver(const Backend& ops) : ops_(ops) {}
  void on_input(const Tensor& x) override { rms.push_back(std::sqrt(ops_.row_moments(x).second_moment[0])); }
  void on_site(int /*sublayer*/, Signal site, const Tensor& x) override {
    if (site == Signal::x_out) on_input(x);
  }
  std::vector<double> rms;

 private:
  const Backend& ops_;
};

}  // namespace

AlignedGrowth grow_aligned(int layers, int width, double gain) {
  const std::unique_ptr<Backend> ops = make_reference_backend();
  ModelSpec model;
  model.layers = layers;
  model.width = model.head_dim = model.mlp_width = width;
  model.heads = model.kv_heads = 1;
  model.mlp = MlpKind::relu;
  model.norm_eps = 0.0;
  model.rope = model.final_norm = model.unembedding = false;
  std::vector<double> x;
  for (int i = 0; i < width; ++i) x.push_back(std::cos(1.0 + i));  // any direction
  double square = 0.0;
  for (const double v : x) square += v * v;
  std::vector<double> direction = x;
  for (double& v : direction) v /= std::sqrt(square);
  const AlignedWeights weights(*ops, direction, gain);
  RmsObserver observer(*ops);
  const StackContext context{.ops = *ops, .model = model, .weights = weights};
  (void)stack_forward(context, ops->from_host(1, width, DType::f64, x), observer);
  AlignedGrowth g{.rms = observer.rms, .bound = {}};
  for (std::size_t depth = 0; depth < g.rms.size(); ++depth) {
    g.bound.push_back(g.rms[0] + static_cast<double>(depth) * gain);
    g.worst = std::max(g.worst, g.rms[depth] / g.bound[depth] - 1.0);
  }
  g.nearest = g.rms.back() / g.bound.back();
  return g;
}

}  // namespace periscope
