#pragma once

#include <map>

#include "experiments/engine/training/train.h"
#include "sim/model/hooks.h"
#include "sim/model/weights.h"

namespace periscope::first_steps {

/// Measures what training has added to the products of matrices: with ΔW = W − W₀ the mean square of the entries of
/// ΔW·h, where h is what the matrix reads in a pass with the trained weights. Entries are those of all rows of h.
class UpdateProbe final : public SignalRecorder {
 public:
  /// `context` has the trained weights, `initial` those of before, in the format `masters`, in which the products are
  /// computed. All outlive this.
  UpdateProbe(const StackContext& context, const ResidentWeights& trained, const GeneratedWeights& initial,
              DType masters);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// By matrix and layer [L]; NaN where a layer has none.
  [[nodiscard]] const std::map<Weight, std::vector<double>>& moments() const { return moments_; }

 private:
  void read(int layer, Weight weight, const Tensor& h);

  const StackContext& context_;
  const ResidentWeights& trained_;
  const GeneratedWeights& initial_;
  DType masters_;
  Tensor mixed_;  ///< what W_o would read of the sublayer that is passed, by the last signal that could be it
  std::map<Weight, std::vector<double>> moments_;
};

/// Adds "update.W" [L] of every matrix W of `weights` to the numbers of a record, measured on its held-out windows in
/// one forward pass.
void add_updates(const Backend& ops, const training::TrainCell& cell, const Corpus& corpus,
                 const ResidentWeights& weights, training::RecordedValues& values);

}  // namespace periscope::first_steps
