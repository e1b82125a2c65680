#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"

namespace periscope {

/// How the streams of Hyper-Connections are mixed at every step.
enum class StreamMixing {
  identity,  ///< not at all, as they begin
  uniform,   ///< each becomes the mean of all
  random,    ///< by a doubly stochastic matrix of its own at every step
};
inline constexpr std::array<std::string_view, 3> stream_mixing_names{"identity", "uniform", "random"};
static_assert(are_names_of<StreamMixing>(stream_mixing_names));

/// Which of them a module's output is added to.
enum class StreamWrite {
  all,  ///< to all, as they begin
  one,  ///< to the one that it read
};
inline constexpr std::array<std::string_view, 2> stream_write_names{"all", "one"};
static_assert(are_names_of<StreamWrite>(stream_write_names));

/// The mixing [n][n] of step `index`: rows and columns are ≥ 0 and sum to 1. Random ones are Sinkhorn's limit of
/// exp(4 u − 2), u uniform in [0, 1) by a generator that the step alone starts: the same for every seed of a run.
std::vector<std::vector<double>> mixing_matrix(StreamMixing mixing, int streams, int index);

}  // namespace periscope
