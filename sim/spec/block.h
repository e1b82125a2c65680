#pragma once

#include <optional>
#include <vector>

#include "sim/spec/signal.h"

/// A stack's residual part, which simulation and theory interpret separately: a list of steps, one per addition to the
/// streams,
///   y_b = s ∘ B( f( input_gain·A( Σ_j reads_j x_j ) ) )        of every branch b, s a factor for every channel or 1,
///   x_i⁺ = C( Σ_j mixing_ij x_j + Σ_b writes_bi y_b )          of every stream i.
/// With one stream and one branch that is T1.
namespace periscope {

enum class ModuleKind { attention, mlp };

/// T1's norms and scales of one sublayer: x⁺ = C( alpha·x + beta·B( f( input_gain·A(x) ) ) ), where each of A, B, C is
/// a norm if its flag is set and the identity otherwise.
struct SublayerRule {
  bool norm_a = false;
  bool norm_b = false;
  bool norm_c = false;
  double alpha = 1.0;
  double beta = 1.0;
  double input_gain = 1.0;
  bool scales_channels = false;  ///< LayerScale: βB(…) with a learned factor for every channel

  bool operator==(const SublayerRule&) const = default;
};

/// One module between the streams.
struct Branch {
  int sublayer = 0;  ///< names its weights: 2·layer of attention, 2·layer + 1 of an MLP
  ModuleKind kind = ModuleKind::attention;
  std::vector<double> reads = {1.0};  ///< the weight of every stream in what it reads
  bool shares_input = false;          ///< it reads A_out of the step's first branch
  bool norm_a = false;
  double input_gain = 1.0;
  bool norm_b = false;
  /// Initial factor of every channel after B (LayerScale), not included in `writes`.
  std::optional<double> channel_scale = {};
  std::vector<double> writes = {1.0};  ///< factor on B_out in every stream

  [[nodiscard]] int layer() const { return sublayer / 2; }
  /// The one stream that it reads, with weight 1; nullopt for a mixture.
  [[nodiscard]] std::optional<int> read_stream() const;

  bool operator==(const Branch&) const = default;
};

/// One addition to the streams.
struct Step {
  std::vector<Branch> branches = {};
  std::vector<std::vector<double>> mixing = {{1.0}};  ///< of stream j in stream i: mixing[i][j]
  std::vector<bool> norm_c = {false};                 ///< of every stream

  [[nodiscard]] int streams() const { return static_cast<int>(mixing.size()); }
  /// T1's addition to the first stream, αx + βy of one branch's y of x; there may be other streams.
  [[nodiscard]] bool is_one_addition() const;

  bool operator==(const Step&) const = default;
};

/// |β/α| of branch_ratio, rms(β·B_out)/rms(α·x_in): the branch's weight in the stream that it reads, over that stream's
/// own weight, which counts as 1 for a mixture of streams and for a stream that does not continue.
[[nodiscard]] double branch_scale(const Step& step, const Branch& branch);

/// How the streams begin and end. All begin as the stack's input, after an embedding norm; the output is
/// Σ_i plain_i x_i + N( Σ_i normed_i x_i ), N the final norm or the identity.
struct StreamEnds {
  std::vector<double> plain = {0.0};
  std::vector<double> normed = {1.0};
  /// The signal under which a stream is recorded after every step; nullopt for a memory. Streams of one name are parts
  /// of one signal.
  std::vector<std::optional<Signal>> names = {Signal::x_out};

  [[nodiscard]] int streams() const { return static_cast<int>(names.size()); }
  [[nodiscard]] bool has(Signal name) const;
  [[nodiscard]] bool has_plain() const;
  /// The number of parts of x_out: its statistics are means over them, its squared gradient a sum.
  [[nodiscard]] int parts_of_stream() const;
};

}  // namespace periscope
