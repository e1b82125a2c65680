#include <fmt/format.h>

#include <limits>
#include <map>
#include <numeric>

#include "experiments/studies/first_steps/first_steps.h"
#include "sim/model/input.h"
#include "sim/model/stack.h"

namespace periscope::first_steps {
namespace {

/// Measures the update of every matrix during a forward pass with the trained weights.
class UpdateProbe final : public SignalRecorder {
 public:
  /// `context` has the trained weights, `initial` the weights before training. Products are computed in the format
  /// `masters`. All arguments must outlive this object.
  UpdateProbe(const StackContext& context, const ResidentWeights& trained, const GeneratedWeights& initial,
              DType masters)
      : context_(context), trained_(trained), initial_(initial), masters_(masters) {}
  // A module emits its input A_out first and its output f_out last. Among mixed, gated_mixed, hidden and inner, W_o
  // and W_down read the signal emitted last, because the output of a norm or gate follows its input.
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.pass != Pass::forward || at.sublayer < 0 || at.sublayer >= context_.model.sublayers()) return;
    const bool attention = ModelSpec::is_attention(at.sublayer);
    const int layer = at.sublayer / 2;
    switch (at.signal) {
      case Signal::A_out:
        for (const Weight weight : layer_matrices) {
          if (is_of_mlp(weight) == attention || weight == Weight::o || weight == Weight::down) continue;
          read(layer, weight, x);
        }
        break;
      case Signal::mixed:
      case Signal::gated_mixed:
      case Signal::hidden:
      case Signal::inner: mixed_ = x; break;
      case Signal::f_out:
        read(layer, attention ? Weight::o : Weight::down, mixed_);
        mixed_ = {};
        break;
      default: break;
    }
  }
  /// Mean squares of the entries of ΔW·h, by matrix and layer [L].
  [[nodiscard]] const std::map<Weight, std::vector<double>>& moments() const { return moments_; }

 private:
  void read(int layer, Weight weight, const Tensor& h) {
    const auto found = trained_.parameters().find(matrix_id(layer, weight));
    if (found == trained_.parameters().end()) return;
    const Backend& ops = context_.ops;
    // Rounded to the pass's format, because the pass before training used rounded weights.
    const Tensor before = ops.cast(ops.cast(initial_.matrix(layer, weight)->dense(), found->second.dtype()), masters_);
    const Tensor change = ops.axpby(1.0, ops.cast(found->second, masters_), -1.0, before);
    const RowMoments rows = ops.row_moments(ops.linear(ops.cast(h, masters_), change));
    std::vector<double>& of_layers = moments_[weight];
    of_layers.resize(static_cast<std::size_t>(context_.model.layers), std::numeric_limits<double>::quiet_NaN());
    of_layers[static_cast<std::size_t>(layer)] =
        std::accumulate(rows[Statistic::second_moment].begin(), rows[Statistic::second_moment].end(), 0.0) /
        static_cast<double>(rows[Statistic::second_moment].size());
  }

  const StackContext& context_;
  const ResidentWeights& trained_;
  const GeneratedWeights& initial_;
  DType masters_;
  Tensor mixed_;  ///< last signal that may be the input of W_o or W_down
  std::map<Weight, std::vector<double>> moments_;
};

}  // namespace

void add_updates(const Backend& ops, const training::TrainingTask& task, const Corpus& corpus,
                 const ResidentWeights& weights, training::RecordedValues& values) {
  const Windows windows = held_out(corpus, task.spec.input.tokens + 1, task.train.record_sequences);
  const StackContext context{.ops = ops, .model = task.spec.model, .weights = weights, .sequences = windows.count()};
  const DType masters = master_dtype(task.dtype);
  const GeneratedWeights initial(ops, task.spec, masters, task.seed);
  UpdateProbe probe(context, weights, initial, masters);
  stack_forward(context, embedding_forward(context, windows.inputs(0, windows.count())), {.recorders = {&probe}});
  for (const auto& [weight, moments] : probe.moments()) {
    values[fmt::format("update.{}", periscope::name_of(weight))] = moments;
  }
}

}  // namespace periscope::first_steps
