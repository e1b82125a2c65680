#pragma once

#include <map>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// What is left of given weights, trained ones say, where nothing but their sizes is kept: random weights of these
/// scales are independent and centred, with the standard deviation that every matrix had and the gains that every norm
/// had. What a stack of given weights does otherwise is alignment.
struct WeightScales {
  /// Of every matrix and table, and of every bias that is not 0 (ParameterId::Part::bias): the root mean square of its
  /// entries, about 0. That of a table is of the rows that the tokens use.
  std::map<ParameterId, double> stddev;
  /// Of every norm, QK-norms too: the gains whole, one per channel, Gemma's + 1 included.
  std::map<ParameterId, std::vector<double>> gains;
};

}  // namespace periscope
