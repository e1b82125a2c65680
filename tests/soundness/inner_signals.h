#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "experiments/studies/certify/attack.h"
#include "tests/emulated/emulation.h"

namespace periscope::soundness {

/// Adds numbers inside the ops of an emulated run to the signal maxima (T24). Watches the ops of the backend, and
/// records the pass to identify the sublayer.
class InnerSignals final : public Watch, public SignalRecorder {
 public:
  InnerSignals(const ModelSpec& model, const WeightSource& weights, certify::SignalMaxima& maxima)
      : model_(model), weights_(weights), maxima_(maxima) {}

  void on_inner(const Tensor* parameter, Signal signal, std::span<const double> magnitudes) override {
    records_.push_back({parameter == nullptr ? Tensor() : *parameter, signal, {magnitudes.begin(), magnitudes.end()}});
  }
  void on_signal(const Emission& at, const Tensor& /*x*/) override {
    if (at.pass != Pass::forward) return;
    // Signals of a whole step belong to its last sublayer.
    const bool of_step = is_of_step(at.signal) && at.sublayer >= 0 && at.sublayer < model_.steps();
    const int sublayer = of_step ? model_.step(at.sublayer).branches.back().sublayer : at.sublayer;
    for (const Record& r : std::exchange(records_, {})) {
      // Without a bias the product is the result of the op, which is recorded as a different signal.
      if (r.signal == Signal::products && !has_bias(sublayer, r.parameter)) continue;
      maxima_.raise_to(r.signal, sublayer, r.magnitudes);
    }
  }

 private:
  struct Record {
    Tensor parameter;
    Signal signal;
    std::vector<double> magnitudes;
  };
  [[nodiscard]] bool has_bias(int sublayer, const Tensor& matrix) const {
    const SublayerWeights weights = weights_.fetch(sublayer);
    return std::ranges::any_of(weights.linear, [&](const auto& entry) {
      return !entry.second.bias.empty() && entry.second.map->dense().same_as(matrix);
    });
  }

  const ModelSpec& model_;
  const WeightSource& weights_;
  certify::SignalMaxima& maxima_;
  std::vector<Record> records_;  ///< values inside ops since the last signal
};

}  // namespace periscope::soundness
