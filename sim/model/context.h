#pragma once

#include "sim/model/weights.h"

namespace periscope {

class KeyValueCache;

/// Context of a pass through a stack. The rows of every activation [N, D] are `sequences` consecutive sequences of
/// equal length. With a cache, the rows are tokens that continue the cached sequence, and there is no backward pass.
struct StackContext {
  const Backend& ops;
  const ModelSpec& model;
  const WeightSource& weights;
  int sequences = 1;
  KeyValueCache* cache = nullptr;
};

}  // namespace periscope
