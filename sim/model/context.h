#pragma once

#include "sim/model/weights.h"

namespace periscope {

/// What a pass through a stack works with. `sequences` sequences of equal length lie one after the other in
/// the rows of every activation [N, D].
struct StackContext {
  const Backend& ops;
  const ModelSpec& model;
  const WeightSource& weights;
  int sequences = 1;
};

}  // namespace periscope
