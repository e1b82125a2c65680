#pragma once

#include <string>
#include <vector>

#include "experiments/engine/training/cell.h"

/// Numbers that claims are about, each of one run.
namespace periscope::reproduce {

using training::TrainedCell;

/// Return the values recorded before training, and those recorded last: at the end, unless the run diverged. Throw
/// std::out_of_range for a name that no record has.
[[nodiscard]] const std::vector<double>& at_start(const TrainedCell& run, const std::string& name);
[[nodiscard]] const std::vector<double>& at_end(const TrainedCell& run, const std::string& name);

/// Mean training loss of the last tenth of the steps; ln V if it is not finite.
[[nodiscard]] double final_loss(const TrainedCell& run);
/// ln of the variance at the top of the stack at the end over that before training.
[[nodiscard]] double variance_surge(const TrainedCell& run);
/// ln of the variance at the top of the stack at the end.
[[nodiscard]] double final_variance(const TrainedCell& run);
/// ln of the largest |x| of the stream at the end.
[[nodiscard]] double largest_activation(const TrainedCell& run);
/// Mean of the angular distances between neighbouring depths.
[[nodiscard]] double mean_distance_of_neighbours(const std::vector<double>& angular_distance);
/// Returns the share of a sublayer's incoming stream in the stream that it hands on, T15's α²q/q⁺ at the end, mean over
/// the upper half of the sublayers.
[[nodiscard]] double main_path_share(const TrainedCell& run);
/// Events in which the logarithm of the loss or of the gradient norm, or of both, spikes (robust_spikes, spike_events),
/// as many as there would be in all steps at the rate of those that were done: a run that diverged early had less time
/// for them.
[[nodiscard]] double spikes(const TrainedCell& run);
/// For every step that was done 1 if an event begins with it that spikes() counts, else 0.
[[nodiscard]] std::vector<double> spike_starts(const TrainedCell& run);
/// Mean over the second half of the steps of ln of the last layer's gradient norm.
[[nodiscard]] double last_layer_gradient(const TrainedCell& run);
/// ‖∂loss/∂W‖² of all matrices of each layer, from a record.
[[nodiscard]] std::vector<double> layer_gradients(const training::RecordedValues& record);
/// The slope of ln of these over the layer, by least squares, times the number of layers.
[[nodiscard]] double slope_over_layers(const std::vector<double>& positive);
/// The slope over sublayers, by least squares, of values that may be missing.
[[nodiscard]] double slope(const std::vector<double>& values);
/// The first step such that the mean loss of the 16 up to it is at most `target`; steps + 1 if there is none.
[[nodiscard]] double steps_to_loss(const TrainedCell& run, double target);
/// Eq. 4's second moment by depth: q₀ plus the branches, T15 without its cosine; norm C scales as it did.
[[nodiscard]] std::vector<double> without_cosine(const training::RecordedValues& record);
/// ln of the second moment at the top over Eq. 4's.
[[nodiscard]] double cosine_share(const training::RecordedValues& record);

/// The stream's growth in training at the top of the stack, in logarithms, in its three parts (T29): what random
/// weights of the trained matrices' root mean squares have beyond the stack before training, what the sizes of their
/// rows and columns add, and what the trained stack has beyond those.
[[nodiscard]] double from_scales(const TrainedCell& run);
[[nodiscard]] double from_sizes_inside(const TrainedCell& run);
[[nodiscard]] double from_alignment(const TrainedCell& run);
/// The same growth in the other order (T29): what the trained matrices have at their sizes before training beyond the
/// stack before training, and what the trained sizes add to that.
[[nodiscard]] double from_directions(const TrainedCell& run);
[[nodiscard]] double from_scales_given_directions(const TrainedCell& run);
/// Returns the excess of what sizes add to trained directions over what they add to random ones.
[[nodiscard]] double growth_interaction(const TrainedCell& run);
/// Returns the excess of ln of the trained stack's second moment at the top over that of models that have every |W_ij|
/// of it, with random signs.
[[nodiscard]] double beyond_signs(const TrainedCell& run);

}  // namespace periscope::reproduce
