#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "experiments/engine/study/study.h"
#include "sim/checkpoint/memory_model.h"
#include "sim/model/hooks.h"

namespace periscope::probe {

/// A pass through a model in another program, such as a training loop.
struct OutsidePass {
  /// A signal, or its gradient, [rows, columns], row-major; `sequences` one after the other in the rows.
  struct Value {
    Emission at;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::span<const double> values = {};
  };
  int sequences = 1;
  std::vector<int> ids = {};
  std::vector<int> labels = {};                                ///< one per id, no_label for none
  std::vector<Value> signals = {};                             ///< in the order of the dataflow, then gradients
  std::vector<std::pair<ParameterId, double>> gradients = {};  ///< of matrices: sums of squares
  std::span<const double> logits = {};                         ///< [ids, V]; none: no losses
  bool backward = false;
  double unit_roundoff = 0.0;  ///< of the additions to the stream; used if larger than that of the replay's dtype
};

/// Measures the pass with the probes of `run`, without theory. `model` has its family, sizes and gains; `dtype` is that
/// of its signals. The hash of the configuration covers the ids, not the weights, which change with every step. Throws
/// InputError for a model that cannot be read and for values whose size is not that of the signal.
study::Outcome replay(const std::shared_ptr<const MemoryModel>& model, const OutsidePass& pass, DType dtype, int top);

}  // namespace periscope::probe
