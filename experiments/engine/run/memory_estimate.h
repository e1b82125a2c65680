#pragma once

#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"
#include "sim/model/stack.h"

namespace periscope::stacks {

/// Peak-memory estimate of a run from its largest live arrays; accurate to about a factor of 3 (tests/cli/memory.py).
/// In double, so that no shape overflows it.
struct MemoryEstimate {
  double bytes = 0.0;
  std::string_view key = {};  ///< the key that the largest part grows with
  double largest = 0.0;       ///< that part, bytes

  /// Adds a part that exists at the same time as the others.
  void add(double part, std::string_view grows_with);
  [[nodiscard]] MemoryEstimate times(double count) const;
  /// Adds a part that exists only after this one is done: the larger of the two counts.
  void then(const MemoryEstimate& next);
};

/// Returns the estimate of one pass over `model`: a sublayer's signals, attention patterns of every thread and
/// statistics of every token; with `backward` a sublayer's gradients, the stream at every depth and the loss; with
/// `whole_matrices` one matrix (of a checkpoint, or on a device that does not draw it within products).
MemoryEstimate pass_memory(const ModelSpec& model, double tokens, DType dtype, bool backward, int threads,
                           bool whole_matrices = true);

/// Entries per token of all signals inside a model's sublayers.
double signal_entries(const ModelSpec& model);

/// Returns the estimate of the concurrent passes of over_seeds, each with `copies` of all signals.
MemoryEstimate reading_memory(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                              double copies = 0.0);

/// Returns StackTape::budget of one of the concurrent passes of measure_stack, which share `available` bytes:
/// run.memory, at most 0.8 of `available`, minus reading_memory. Without run.memory: 2.8 GB, at most half of
/// `available`, on the CPU with dense weights, else the minimum of 64 MB.
std::size_t tape_budget(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads, double available);

/// Returns the estimate of theory::predict: concurrent chains of kernels [T, T], with `backward` also their traces.
/// Unless `all_tokens`, forward chains may use smaller kernels, of a grid of tokens.
MemoryEstimate limit_memory(const StackSpec& spec, bool backward, int threads, bool all_tokens = true);

/// Returns the estimate of theory::predict with the scales of given weights (T29), whose chains hold a kernel of every
/// branch and the second moment of every entry of a signal.
MemoryEstimate scaled_limit_memory(const StackSpec& spec, int threads);

/// Returns the estimate of a sublayer's matrices in f64 and their Gram matrices.
MemoryEstimate gram_memory(const ModelSpec& model);

/// Returns the estimate of all stacks of `config`: theory::predict, with `at_width` theory::predict_at_width, and with
/// `measures` the measurement.
MemoryEstimate stacks_memory(const config::Config& config, bool at_width, bool measures, int threads);

/// Returns the estimate of predicting and measuring every stack at every width. Throws ConfigError for a width that no
/// whole number of heads has.
MemoryEstimate widths_memory(const config::Config& config, const std::vector<int>& widths, int seeds, int threads);

/// Returns the bytes that this process may still allocate: the least that the machine, its control groups and its
/// address space limit leave; infinity if none of them can be read.
double available_bytes(int threads);

/// Throws ConfigError, which names the key to lower, if the estimate exceeds the available memory, unless `force`.
void require_fits(const MemoryEstimate& memory, bool force, Progress& progress);

/// Memory ran out in spite of the estimate.
struct OutOfMemory : Error {
  using Error::Error;
};
OutOfMemory out_of_memory(const MemoryEstimate& memory);

/// Runs `f`, whose estimate is `memory`. Throws as require_fits does, and OutOfMemory.
template <class F>
auto within_memory(const MemoryEstimate& memory, bool force, Progress& progress, const F& f) {
  require_fits(memory, force, progress);
  try {
    return f();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more elements than a vector can have
  }
  throw out_of_memory(memory);
}

}  // namespace periscope::stacks
