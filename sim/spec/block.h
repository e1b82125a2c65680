#pragma once

#include <optional>
#include <vector>

#include "sim/spec/signal.h"

/// The residual part of a stack as a list of steps, interpreted independently by simulation and theory. Every step is
/// one addition to the streams:
///   y_b = s ∘ B( f( input_gain·A( Σ_j reads_j x_j ) ) )        for every branch b; s is a per-channel factor or 1
///   x_i⁺ = C( Σ_j mixing_ij x_j + Σ_b writes_bi y_b )          for every stream i
/// With one stream and one branch this is the standard residual block (T1).
namespace periscope {

enum class ModuleKind { attention, mlp };

/// Norms and scales of one sublayer (T1): x⁺ = C( alpha·x + beta·B( f( input_gain·A(x) ) ) ). Each of A, B and C is a
/// norm if its flag is set, and the identity otherwise.
struct SublayerRule {
  bool norm_a = false;
  bool norm_b = false;
  bool norm_c = false;
  double alpha = 1.0;
  double beta = 1.0;
  double input_gain = 1.0;
  bool scales_channels = false;  ///< LayerScale: one learned factor per channel multiplies B's output

  bool operator==(const SublayerRule&) const = default;
};

/// One module and its connections to the streams.
struct Branch {
  int sublayer = 0;  ///< index of its weights: 2·layer for attention, 2·layer + 1 for an MLP
  ModuleKind kind = ModuleKind::attention;
  std::vector<double> reads = {1.0};  ///< weight of each stream in the module's input
  bool shares_input = false;          ///< reuses A_out of the step's first branch as its input
  bool norm_a = false;
  double input_gain = 1.0;
  bool norm_b = false;
  /// Initial factor of every channel after B (LayerScale), not included in `writes`.
  std::optional<double> channel_scale = {};
  std::vector<double> writes = {1.0};  ///< weight with which B_out is added to each stream

  [[nodiscard]] int layer() const { return sublayer / 2; }
  /// Returns the single stream read with weight 1, or nullopt for a mixture of streams.
  [[nodiscard]] std::optional<int> read_stream() const;

  bool operator==(const Branch&) const = default;
};

/// One addition to the streams.
struct Step {
  std::vector<Branch> branches = {};
  std::vector<std::vector<double>> mixing = {{1.0}};  ///< mixing[i][j]: weight of stream j in stream i
  std::vector<bool> norm_c = {false};                 ///< per stream: whether norm C follows

  [[nodiscard]] int streams() const { return static_cast<int>(mixing.size()); }
  /// True if the first stream x becomes αx + βy with y computed from x by one branch (T1). Other streams may exist.
  [[nodiscard]] bool is_one_addition() const;

  bool operator==(const Step&) const = default;
};

/// Factor |β/α| in branch_ratio = rms(β·B_out)/rms(α·x_in): β is the branch's weight in the stream it reads, α the
/// weight of the old stream in the new one, or 1 for a mixture of streams and for a stream that the step discards.
[[nodiscard]] double branch_scale(const Step& step, const Branch& branch);

/// How streams start and end. Every stream starts as the stack's input, after the embedding norm if there is one. The
/// output is Σ_i plain_i x_i + N( Σ_i normed_i x_i ), where N is the final norm or the identity.
struct StreamEnds {
  std::vector<double> plain = {0.0};
  std::vector<double> normed = {1.0};
  /// Signal that records each stream after every step, if any. Streams with the same signal are parts of it.
  std::vector<std::optional<Signal>> names = {Signal::x_out};

  [[nodiscard]] int streams() const { return static_cast<int>(names.size()); }
  [[nodiscard]] bool has(Signal name) const;
  [[nodiscard]] bool has_plain() const;
  /// Number of streams recorded as x_out: statistics of x_out are means over them, its squared gradient a sum.
  [[nodiscard]] int parts_of_stream() const;
};

}  // namespace periscope
