#pragma once

#include "sim/model/weights.h"

namespace periscope {

class KeyValueCache;

/// The context of a pass through a stack. `sequences` sequences of equal length lie one after the other in the rows of
/// every activation [N, D]. With a cache the rows are the tokens that follow those of the cache, in one sequence, and
/// there is no backward pass.
struct StackContext {
  const Backend& ops;
  const ModelSpec& model;
  const WeightSource& weights;
  int sequences = 1;
  KeyValueCache* cache = nullptr;
};

}  // namespace periscope
