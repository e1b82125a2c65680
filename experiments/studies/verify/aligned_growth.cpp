#include "experiments/studies/verify/aligned_growth.h"

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/seed_rows.h"
#include "sim/model/parameters.h"
#include "sim/model/stack.h"
#include "sim/numerics/larger.h"
#include "sim/reference/backend.h"

namespace periscope::verify {
namespace {

/// x̂ x̂ᵀ for every matrix; W_up and W_down through the first of the hidden units alone.
class AlignedWeights final : public WeightSource {
 public:
  AlignedWeights(const Backend& ops, const ModelSpec& model, std::vector<double> direction, double gain)
      : ops_(ops), model_(model), direction_(std::move(direction)), gain_(gain) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override {
    SublayerWeights all;
    for (const Weight weight : weights_in(model_, sublayer)) {
      if (is_norm(weight)) {
        all.norms[weight] = {ops_.constant(1, model_.width, DType::f64, gain_), {}};
      } else {
        all.linear[weight] = {dense_map([this, weight] { return matrix(weight); }), {}};
      }
    }
    return all;
  }
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return rows_of_matrix(*this, ops, table, ids);
  }

 private:
  [[nodiscard]] Tensor matrix(Weight weight) const {
    const std::size_t d = direction_.size();
    std::vector<double> w(d * d, 0.0);
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = 0; j < d; ++j) {
        const double row = weight == Weight::up ? (i == 0 ? 1.0 : 0.0) : direction_[i];
        const double column = weight == Weight::down ? (j == 0 ? 1.0 : 0.0) : direction_[j];
        w[i * d + j] = row * column;
      }
    }
    return ops_.from_host(model_.width, model_.width, DType::f64, w);
  }

  const Backend& ops_;
  const ModelSpec& model_;
  std::vector<double> direction_;
  double gain_;
};

/// √(mean square) of the stream at every depth.
class RmsRecorder final : public SignalRecorder {
 public:
  explicit RmsRecorder(const Backend& ops) : ops_(ops) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal == Signal::x_out) rms.push_back(std::sqrt(ops_.row_moments(x).second_moment[0]));
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
  const AlignedWeights weights(*ops, model, direction, gain);
  RmsRecorder recorder(*ops);
  const StackContext context{.ops = *ops, .model = model, .weights = weights};
  (void)stack_forward(context, ops->from_host(1, width, DType::f64, x), {.recorders = {&recorder}});
  AlignedGrowth g{.rms = recorder.rms, .bound = {}};
  for (std::size_t depth = 0; depth < g.rms.size(); ++depth) {
    g.bound.push_back(g.rms[0] + static_cast<double>(depth) * gain);
    g.worst = larger(g.worst, g.rms[depth] / g.bound[depth] - 1.0);
  }
  g.nearest = g.rms.back() / g.bound.back();
  return g;
}

}  // namespace periscope::verify
