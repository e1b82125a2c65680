#include <cmath>

#include "experiments/engine/judge/tolerated_bias.h"
#include "experiments/engine/training/run_task.h"
#include "experiments/studies/reproduce/metrics.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/significance.h"
#include "theory/predict/predict.h"

namespace periscope::testing {
namespace {

constexpr int seeds = 32;

/// Returns a wide and shallow stack, so that finite width matters less than the correlation between windows.
StackSpec wide_stack(std::string_view placement) {
  StackSpec spec;
  spec.model.layers = 2;
  spec.model.width = 192;
  spec.model.heads = spec.model.kv_heads = 12;
  spec.model.head_dim = 16;
  spec.model.mlp_width = 384;
  spec.model.vocab = 32;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = 12;
  spec = placed(spec, placement);
  validate(spec);
  return spec;
}

theory::Prediction prediction_of(const StackSpec& spec, const Windows& windows, bool one_batch) {
  std::vector<std::vector<int>> ids, labels;
  for (int w = 0; w < windows.count(); ++w) {
    ids.push_back(windows.inputs(w, 1));
    labels.push_back(windows.labels(w, 1));
  }
  theory::PredictionOptions options{.gradient_tolerance = 0.03};
  if (one_batch) return theory::predict_batch(spec, ids, labels, options);
  options.labels = labels;
  return theory::predict(spec, ids, options);
}

/// Returns the sum over the matrices of a layer; the sum of their errors is an upper bound on its error.
Estimate layer_sum(const theory::Prediction& prediction, std::size_t layer) {
  Estimate sum{0.0, 0.0};
  for (std::size_t w = 0; is_layer_matrix(static_cast<Weight>(w)); ++w) {
    const Curve* curve = prediction.profile.find(Statistic::grad_sq, static_cast<Weight>(w));
    if (curve == nullptr) continue;
    sum.mean += curve->value[layer];
    sum.standard_error += curve->standard_error[layer];
  }
  return sum;
}

/// Returns the difference beyond the finite-width term (T19), in standard errors.
double excess(const Estimate& measured, const Estimate& predicted, double width_term) {
  const double off = std::abs(measured.mean - predicted.mean) - std::expm1(width_term) * predicted.mean;
  return off / std::hypot(measured.standard_error, predicted.standard_error);
}

TEST_CASE("theory before training agrees with recorded gradients, for one window and for eight" *
          doctest::test_suite("slow")) {
  const Corpus corpus("synthetic", 0.1, 1000, 32);
  for (const char* placement : {"pre", "peri", "post"}) {
    const StackSpec spec = wide_stack(placement);
    for (const int windows : {1, 8}) {
      INFO("placement := ", placement, ", windows := ", windows);
      const TrainSpec train{.record_sequences = windows, .steps = 1, .batch = 1};
      const training::Recorder recorder(*targets().front().backend, spec, train, corpus);
      std::vector<std::vector<double>> by_layer(2);
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const Trainer trainer(*targets().front().backend, spec, train, corpus, seed, DType::f32);
        const std::vector<double> sums = reproduce::layer_gradients(recorder.record(trainer.weights()));
        for (std::size_t l = 0; l < 2; ++l) by_layer[l].push_back(sums[l]);
      }
      const Windows read = held_out(corpus, spec.input.tokens + 1, windows);
      const theory::Prediction together = prediction_of(spec, read, true);
      const theory::Prediction apart = prediction_of(spec, read, false);
      const double width_term = judge::WidthBias(spec, together.finite_width, {}).of_log_gradient(0, true);
      for (std::size_t l = 0; l < 2; ++l) {
        const Estimate measured = estimate(by_layer[l]);
        const Estimate predicted = layer_sum(together, l);
        INFO("layer ", l, ": measured ", measured.mean, " ± ", measured.standard_error, ", theory ", predicted.mean,
             " ± ", predicted.standard_error, ", window by window ", layer_sum(apart, l).mean);
        CHECK(predicted.standard_error < 0.1 * predicted.mean);
        CHECK(excess(measured, predicted, width_term) < most_standard_errors);
        if (windows > 1) CHECK(excess(measured, layer_sum(apart, l), width_term) > most_standard_errors);
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
