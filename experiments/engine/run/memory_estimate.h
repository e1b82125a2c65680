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

/// Peak-memory estimate of a run from its largest live arrays; accurate to about a factor of 3
/// (tests/cli/memory_test.py). Uses double, which cannot overflow.
struct MemoryEstimate {
  double bytes = 0.0;
  std::string_view key = {};  ///< key that determines the size of the largest array
  double largest = 0.0;       ///< size of the largest array, in bytes

  /// Adds an array that exists at the same time as the others and grows with the key `grows_with`.
  void add(double part, std::string_view grows_with);
  [[nodiscard]] MemoryEstimate times(double count) const;
  /// Adds a later phase, which starts when the memory of this phase is freed: takes the larger of the two estimates.
  void add_phase(const MemoryEstimate& next);
};

/// Returns the estimate of one pass over `model`: a sublayer's signals, attention patterns of every thread and
/// statistics of every token. `backward` adds a sublayer's gradients, the stream at every depth and the loss.
/// `whole_matrices` adds one matrix, for checkpoints and for devices that do not sample matrices within products.
MemoryEstimate pass_memory(const ModelSpec& model, double tokens, DType dtype, bool backward, int threads,
                           bool whole_matrices = true);

/// Returns the number of entries per token in all signals of a model's sublayers.
double signal_entries(const ModelSpec& model);

/// Returns the estimate of the concurrent passes of over_seeds, each storing `copies` copies of all signals.
MemoryEstimate reading_memory(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                              double copies = 0.0);

/// Returns StackTape::budget for one of the concurrent passes of measure_stack, which share `available` bytes:
/// run.memory, at most 0.8 of `available`, minus reading_memory. On the CPU with dense weights, run.memory defaults to
/// 2.8 GB, at most half of `available`. In all other cases the default budget is the minimum, 64 MB.
std::size_t tape_budget(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads, double available);

/// Returns the estimate of theory::predict: concurrent replicates with kernels [T, T], stored for all layers with
/// `backward`. Unless `all_tokens`, forward predictions may use smaller kernels on a grid of tokens.
MemoryEstimate limit_memory(const StackSpec& spec, bool backward, int threads, bool all_tokens = true);

/// Returns the estimate of theory::predict with the scales of given weights (T29). Its replicates store a kernel of
/// every branch and the second moment of every entry of a signal.
MemoryEstimate scaled_limit_memory(const StackSpec& spec, int threads);

/// Returns the estimate for a sublayer's matrices in f64 and their Gram matrices.
MemoryEstimate gram_memory(const ModelSpec& model);

/// Returns the estimate for predicting all stacks of `config`, also at their own widths if `at_width`, and measuring
/// them if `measures`.
MemoryEstimate stacks_memory(const config::Config& config, bool at_width, bool measures, int threads);

/// Returns the estimate for predicting and measuring every stack at every width. Throws as config::at_width does.
MemoryEstimate widths_memory(const config::Config& config, const std::vector<int>& widths, int seeds, int threads);

/// Returns the bytes that this process can still allocate: the minimum over the machine, control groups and the address
/// space limit; infinity if no limit can be read.
double available_bytes(int threads);

/// Throws ConfigError, naming the key to lower, if the estimate exceeds the available memory, unless `force`.
void require_fits(const MemoryEstimate& memory, bool force, Progress& progress);

/// Thrown if an allocation fails although the estimate was within the available memory.
struct OutOfMemory : Error {
  using Error::Error;
};
OutOfMemory out_of_memory(const MemoryEstimate& memory);

/// Returns f(), whose memory estimate is `memory`. Throws as require_fits does, and OutOfMemory.
template <class F>
auto within_memory(const MemoryEstimate& memory, bool force, Progress& progress, const F& f) {
  require_fits(memory, force, progress);
  try {
    return f();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // exceeds std::vector::max_size
  }
  throw out_of_memory(memory);
}

}  // namespace periscope::stacks
