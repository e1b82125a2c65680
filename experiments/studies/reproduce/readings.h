#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/reproduce/groups.h"

/// Numbers and curves of one run, from its records.
namespace periscope::reproduce {

using training::RecordedValues;
using training::TrainingResult;

/// Computes a number of one run.
using Reading = std::function<double(const TrainingResult&)>;

/// Return the record before training, and the last one: at the end, unless the run diverged.
[[nodiscard]] const RecordedValues& first_record(const TrainingResult& run);
[[nodiscard]] const RecordedValues& last_record(const TrainingResult& run);

/// Mean training loss of the last tenth of the steps; ln V if it is not finite.
[[nodiscard]] double final_loss(const TrainingResult& run);
/// ln of the variance at the top of the stack at the end.
[[nodiscard]] double final_variance(const TrainingResult& run);
/// Number of events in which the logarithm of the loss or of the gradient norm spikes (events_of_run), extrapolated to
/// all steps if the run diverged early.
[[nodiscard]] double spikes(const TrainingResult& run);
/// For every step done, 1 if an event that spikes() counts begins with it, else 0.
[[nodiscard]] std::vector<double> spike_starts(const TrainingResult& run);
/// Mean over the second half of the steps of ln of the last layer's gradient norm.
[[nodiscard]] double last_layer_gradient(const TrainingResult& run);
/// ‖∂loss/∂W‖² of all matrices of each layer.
[[nodiscard]] std::vector<double> layer_gradients(const RecordedValues& record);
/// The first step such that the mean loss of the 16 up to it is at most `target`; steps + 1 if there is none.
[[nodiscard]] double steps_to_loss(const TrainingResult& run, double target);
/// Eq. 4's second moment by depth: q₀ plus the branches, T15 without its cosine; norm C scales as it did.
[[nodiscard]] std::vector<double> without_cosine(const RecordedValues& record);
/// ln of the second moment at the top over Eq. 4's.
[[nodiscard]] double cosine_share(const RecordedValues& record);

/// A part of the stream's growth in training at the top of the stack, in logarithms (T29), as column and in the table.
struct GrowthPart {
  std::string column, title, meaning;
  Reading read;
};
/// The growth is the sum of the first three, and of the fourth and the fifth.
[[nodiscard]] const std::vector<GrowthPart>& growth_parts();
/// The part beyond random weights with the sizes of the trained rows and columns; NaN for a run that ended early, and
/// where theory does not support its sizes.
[[nodiscard]] double from_alignment(const TrainingResult& run);

using Values = std::vector<double>;

}  // namespace periscope::reproduce
