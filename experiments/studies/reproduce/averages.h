#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/studies/reproduce/claims.h"
#include "theory/predict/predict.h"

/// The curves that the result of `reproduce` has for a whole group: means over its seeds.
namespace periscope::reproduce {

using Values = std::vector<double>;

/// A curve that figures draw: of every record of a run, averaged over seeds.
struct Averaged {
  std::string name;
  std::string dimension;
  std::string units;
  std::string meaning;
  bool geometric;  ///< mean of logarithms, whose standard error is then given
  std::function<Values(const RecordedValues&)> values;
};

[[nodiscard]] const std::vector<Averaged>& averaged();

/// The steps of a run's records.
[[nodiscard]] std::vector<int> recorded_steps(const TrainSpec& train);

/// Means over the seeds of a group, one record after the other; NaN for a record that no seed has. Nothing where no
/// seed has any.
[[nodiscard]] std::optional<Curve> average_of(const Averaged& curve, const GroupRuns& runs);

/// Squared gradients of all matrices of a layer, predicted, with their standard error at most: the sum of the
/// matrices'. Nothing without prediction.
[[nodiscard]] std::optional<Curve> predicted_layer_gradients(const theory::Prediction& prediction);

}  // namespace periscope::reproduce
