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

/// Signals and gradients of a pass that another program ran, such as a training loop.
struct OutsidePass {
  /// A signal or its gradient [rows, cols], row-major. The rows are the concatenated sequences.
  struct Value {
    Emission at;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::span<const double> values = {};
  };
  std::vector<int> lengths = {};  ///< number of tokens of every sequence
  std::vector<int> ids = {};
  std::vector<int> labels = {};                                ///< one per id, no_label for none
  std::vector<Value> signals = {};                             ///< in the order of the dataflow, then gradients
  std::vector<std::pair<ParameterId, double>> gradients = {};  ///< sums of squared gradients, by matrix
  std::span<const double> logits = {};                         ///< [ids, V]; empty: losses are not computed
  bool backward = false;
  double unit_roundoff = 0.0;  ///< of additions to the stream; ignored if below the unit roundoff of `dtype`
};

/// Measures the pass with the probes of `run`, without theory. `model` gives family, sizes and gains; `dtype` is the
/// format of the signals. The hash of the configuration covers the ids, but not the weights, which change with every
/// step. Throws InputError for an unreadable model and for values of the wrong size.
study::Outcome replay(const std::shared_ptr<const MemoryModel>& model, const OutsidePass& pass, DType dtype, int top);

}  // namespace periscope::probe
