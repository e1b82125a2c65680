#pragma once

#include <span>

#include "sim/core/backend.h"
#include "sim/model/weights.h"
#include "sim/spec/weight_scales.h"

namespace periscope {

/// The scales of given weights: the root mean square of every matrix and of every bias that is not 0, and the gains of
/// every norm. Tables count with the rows that a sequence of the tokens `ids` uses, as often as it does; none do if it
/// is empty. Sums are taken in double, and one sublayer's weights are in memory at a time.
[[nodiscard]] WeightScales scales_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                     std::span<const int> ids);

}  // namespace periscope
