#pragma once

#include <span>
#include <vector>

#include "experiments/studies/certify/attack.h"
#include "tests/emulated/watch.h"

namespace periscope::soundness {

/// Adds the numbers inside the ops of an emulated run to maxima: they are signals too (T24). It watches the backend's
/// ops and, as a recorder of the same pass, learns of each sublayer's end.
class InnerSignals final : public Watch, public SignalRecorder {
 public:
  InnerSignals(const ModelSpec& model, const WeightSource& weights, certify::SignalMaxima& maxima)
      : model_(model), weights_(weights), maxima_(maxima) {}

  void on_inner(const Tensor* parameter, Inner inner, std::span<const double> magnitudes) override;
  void on_signal(const Emission& at, const Tensor& x) override;

 private:
  struct Record {
    Tensor parameter;  ///< the op's matrix or gain; of ops that have none, that of the op before
    Inner inner;
    std::vector<double> magnitudes;
  };
  void add(int sublayer, const Record& record);
  [[nodiscard]] bool has_bias(int sublayer, const Tensor& matrix) const;

  const ModelSpec& model_;
  const WeightSource& weights_;
  certify::SignalMaxima& maxima_;
  Tensor last_;
  std::vector<Record> records_;  ///< since the last signal
};

}  // namespace periscope::soundness
