#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "experiments/core/config/config.h"
#include "sim/model/stack.h"

namespace periscope::stacks {

/// What a run needs, about, in double, so that no shape overflows it: functions of the specification alone, but for the
/// tape of gradients, which may use what memory there is.
struct Need {
  double bytes = 0.0;         ///< of memory at its peak, the program's own left out
  double operations = 0.0;    ///< floating-point operations, a multiply-add being two
  std::string_view key = {};  ///< the key that the largest part of the memory grows with
  double largest = 0.0;       ///< that part, bytes

  /// A part that exists beside the others.
  void add(double part, std::string_view grows_with);
  /// As many of these at one time.
  [[nodiscard]] Need times(double count) const;
  /// What comes after this is done: operations add up, of the memory the larger counts.
  void then(const Need& next);
};

/// One reading of a stack per seed (measure_stack): the signals of a sublayer, one of them packed for its product,
/// blocks of attention's patterns, one for each thread, the numbers that a probe notes of every token, and with
/// run.backward the tape; the weights of a sublayer on devices that do not draw them within their products. As many at
/// one time as over_seeds runs. `kept`: bytes that the tape may keep, tape_budget unless given.
Need reading_need(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                  std::optional<double> kept = std::nullopt);

/// What a pass holds of its matrices: those of a sublayer, drawn or read; nothing, where products draw them; or what
/// stands in for them (T21).
enum class MatrixMemory { whole, drawn_in_products, none };

/// The same of one pass over a checkpoint's `model`, whose tables are read row by row. `kept`: bytes that the tape may
/// keep of signals inside sublayers.
Need pass_need(const ModelSpec& model, int tokens, DType dtype, bool backward, int threads,
               MatrixMemory matrices = MatrixMemory::whole, double kept = static_cast<double>(StackTape().budget));

/// StackTape::budget of one of the passes that measure_stack runs at one time, of whose memory `available` bytes are
/// left: run.memory, but at most 0.8 of what is left, less what the passes need anyhow. Without run.memory 2.8 GB, but
/// at most half of what is left, on the CPU with dense weights, and elsewhere 64 MB, which is also the least.
std::size_t tape_budget(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads, double available);

/// One pass of run.dtype that keeps, of matrix-free weights, what completes their matrices.
Need completed_pass_need(const StackSpec& spec, const config::RunOptions& run, int threads);

/// theory::predict: the chains that run at one time, of kernels [T, T], and with `backward` their traces.
Need limit_need(const StackSpec& spec, bool backward, int seeds, int threads);

/// The same with the scales of given weights: chains that hold a kernel for every norm behind a branch, and the second
/// moment of every entry of a signal.
Need scaled_limit_need(const StackSpec& spec, int threads);

/// theory::predict_at_width: the Gram chains T25 that run at one time, and the readings of all.
Need width_need(const StackSpec& spec, int seeds, int replicates, int threads);

/// The matrices of a sublayer in f64 and their Gram matrices.
Need gram_need(const ModelSpec& model);

/// A reading that keeps every signal and its gradient, and goes back through every branch alone, too.
Need kept_reading_need(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads);

/// Predictions at the stack's widths, passes of every stack that keep every compared signal of one of them in f64,
/// `passes` a seed, and certificates.
Need compared_passes_need(const config::Config& config, double passes, int threads);

/// Every stack at every width of the list of that name: its limit, and readings of `seeds` seeds. Throws ConfigError
/// for a width at which heads would not be whole numbers.
Need widths_need(const config::Config& config, const std::vector<int>& widths, std::string_view list, int seeds,
                 int threads);

/// The predictions of all stacks of `config`, and their readings if it `measures`.
Need stacks_need(const config::Config& config, bool at_width, bool measures, int threads);

}  // namespace periscope::stacks
