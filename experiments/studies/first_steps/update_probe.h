#pragma once

#include "experiments/engine/training/train.h"

namespace periscope::first_steps {

/// Adds "update.W" [L] of every matrix W of `weights` to the numbers of a record, measured on its held-out windows in
/// one forward pass with these weights: with ΔW = W − W₀ the mean square of the entries of ΔW·h, where h is what the
/// matrix reads. Entries are those of all rows of h; NaN where a layer has no W.
void add_updates(const Backend& ops, const training::TrainCell& cell, const Corpus& corpus,
                 const ResidentWeights& weights, training::RecordedValues& values);

}  // namespace periscope::first_steps
