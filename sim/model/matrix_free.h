#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/model/weights.h"

namespace periscope {

/// Whether matrix-free weights store their inputs, so that the matrices can be completed after the pass.
enum class Remember { nothing, readings };

/// Random weights of one seed without matrices (T21): of W [m, n], with independent N(0, s²) entries, only its products
/// with the N rows X of its input and, in the backward pass, with the N rows dY are drawn.
///   Forward    X = L Q (row_basis), G [N, m] ~ N(0, s²):  Y = L G.
///   Back       dY = L₂ Q₂, H [N, n] ~ N(0, s²):           dX = (dY Gᵀ − L₂ H Qᵀ) Q + L₂ H.
///   Gradient   ‖dYᵀ X‖_F² = ‖L₂ᵀ L‖_F².
/// States and gradients are those of a dense stack with W = GᵀQ + Q₂ᵀ(H − HQᵀQ) + (1 − Q₂ᵀQ₂) R (1 − QᵀQ) for an
/// independent R, so they have the law of a dense stack at any shape; GeneratedWeights of the same seed is another
/// sample. N² (m + n) operations and N (m + n) numbers instead of N m n and m n.
///
/// A matrix has one input tensor and one backward product, as in one pass; a recomputation reads the same tensor again.
/// Row t of G and of H has its own numbers in the stream (seed, layer, matrix), for any number of rows.
class MatrixFreeWeights final : public WeightSource {
 public:
  MatrixFreeWeights(const Backend& backend, StackSpec spec, DType dtype, std::uint64_t seed,
                    Remember remember = Remember::nothing)
      : dense_(backend, spec, dtype, seed),
        backend_(backend),
        spec_(std::move(spec)),
        dtype_(dtype),
        seed_(seed),
        remember_(remember) {}

  /// Tables are those of GeneratedWeights. Other matrices have entries (dense) only after a pass with
  /// Remember::readings, else std::logic_error; a matrix that was not read is R.
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return dense_.rows(ops, table, ids);
  }

 private:
  friend class MatrixFreeMap;
  friend class MatrixFreeReading;

  /// Names a matrix: its layer and its kind.
  using Name = std::pair<int, Weight>;
  /// Directions that a matrix was read and pulled along.
  struct Seen {
    Tensor q, q2;
  };
  /// The matrix's first rows of that stream.
  [[nodiscard]] Tensor numbers(Name name, Stream stream, Tensor::Index rows, Tensor::Index cols) const;
  /// W, completed from its products.
  [[nodiscard]] Tensor completed(Name name) const;

  GeneratedWeights dense_;
  const Backend& backend_;
  StackSpec spec_;
  DType dtype_;
  std::uint64_t seed_;
  Remember remember_;
  mutable std::map<Name, Seen> seen_;
};

}  // namespace periscope
