#pragma once

#include <vector>

#include "sim/model/resident_weights.h"
#include "sim/spec/model_spec.h"

namespace periscope::testing {

/// Where all of a stack's D features point: one of them alone, or all alike (for LayerNorm with signs in turn, since it
/// removes what all have in common).
enum class Direction { spike, spread };

/// Weights of rank one along a unit vector d [D]: every matrix that reads the stream is b dᵀ, every one that writes it
/// d bᵀ, b positive and different for every layer, head and feature, and biases are `bias`·b. So one input along d
/// makes every signal as large as it can be. Queries and keys of a pair of features are such that RoPE turns them into
/// one feature at position 1; under QK-norm each head fills one feature. Value and key heads differ tenfold, so that a
/// query head that is given another's is noticed.
class AlignedWeights {
 public:
  AlignedWeights(const StackSpec& spec, Direction direction, double bias);

  [[nodiscard]] const ResidentWeights& source() const { return source_; }

  /// The largest input of entries up to `largest` along d, times a factor for every token [factors.size(), D].
  [[nodiscard]] Tensor input(double largest, const std::vector<double>& factors) const;

 private:
  /// b of a matrix that reads the stream, of one that writes it (then of its columns), or of a table's rows.
  [[nodiscard]] std::vector<double> other_side(int layer, Weight weight, std::size_t n) const;
  [[nodiscard]] Tensor matrix(int layer, Weight weight, const Tensor& like) const;
  [[nodiscard]] Tensor bias_of(int layer, Weight weight, const Tensor& like) const;
  [[nodiscard]] Tensor gain(int sublayer, Weight norm, const Tensor& like) const;
  /// d, in the stream's width or in the embedding's.
  [[nodiscard]] std::vector<double> direction(Tensor::Index n) const;

  ModelSpec model_;
  Direction direction_;
  double bias_;
  ResidentWeights source_;
};

}  // namespace periscope::testing
