#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/reproduce/groups.h"

/// Metrics and curves of one training run.
namespace periscope::reproduce {

using training::RecordedValues;
using training::TrainingResult;

/// Computes one number of a run.
using Metric = std::function<double(const TrainingResult&)>;

/// Return the record before training, and the last record: at the last step, unless the run diverged.
[[nodiscard]] const RecordedValues& first_record(const TrainingResult& run);
[[nodiscard]] const RecordedValues& last_record(const TrainingResult& run);

/// Returns the mean training loss of the last tenth of the steps; ln V if it is not finite.
[[nodiscard]] double final_loss(const TrainingResult& run);
/// Returns ln of the last record's variance at the top of the stack.
[[nodiscard]] double final_variance(const TrainingResult& run);
/// Returns the number of events in which the logarithm of the loss or of the gradient norm spikes (events_of_run),
/// extrapolated to all steps if the run diverged early.
[[nodiscard]] double spikes(const TrainingResult& run);
/// Returns, for every completed step, 1 if an event that spikes() counts starts there, else 0.
[[nodiscard]] std::vector<double> spike_starts(const TrainingResult& run);
/// Returns ln(gradient norm of the last layer), averaged over the second half of the steps.
[[nodiscard]] double last_layer_gradient(const TrainingResult& run);
/// Returns Σ ‖∂loss/∂W‖² over the matrices of each layer.
[[nodiscard]] std::vector<double> layer_gradients(const RecordedValues& record);
/// Returns the first step at which the mean loss of the last 16 steps is at most `target`, or else steps + 1.
[[nodiscard]] double steps_to_loss(const TrainingResult& run, double target);
/// Returns the second moment by depth from Eq. 4: without the cosine term of T15, with norm C's measured factor.
[[nodiscard]] std::vector<double> without_cosine(const RecordedValues& record);
/// Returns ln(second moment at the top of the stack / its value from Eq. 4).
[[nodiscard]] double cosine_share(const RecordedValues& record);

/// One part of ln(growth of the stream at the top of the stack) during training (T29), with its column and table title.
struct GrowthPart {
  std::string column, title, meaning;
  Metric read;
};
/// Returns the parts. The growth is the sum of the first three, and also of the fourth and the fifth.
[[nodiscard]] const std::vector<GrowthPart>& growth_parts();
/// Returns the excess of the stream's growth over its growth with random weights whose rows and columns have the
/// trained sizes. NaN if the run ended early or the theory does not support the sizes.
[[nodiscard]] double from_alignment(const TrainingResult& run);

using Values = std::vector<double>;

}  // namespace periscope::reproduce
