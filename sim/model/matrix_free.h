#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/model/weights.h"

namespace periscope {

/// Whether matrix-free weights store their inputs' factors, so that dense matrices can be computed after a pass.
enum class StoreFactors { no, yes };

/// Random weights of one seed without matrices (T21). For a matrix W [m, n] with independent N(0, s²) entries, only its
/// products with the input X [N, n] and, in the backward pass, with dY [N, m] are sampled.
///   Forward    X = L Q (row_basis), G [N, m] ~ N(0, s²):  Y = L G.
///   Backward   dY = L₂ Q₂, H [N, n] ~ N(0, s²):           dX = (dY Gᵀ − L₂ H Qᵀ) Q + L₂ H.
///   Gradient   ‖dYᵀ X‖_F² = ‖L₂ᵀ L‖_F².
/// Signals and gradients equal those of a dense stack with W = GᵀQ + Q₂ᵀ(H − HQᵀQ) + (1 − Q₂ᵀQ₂) R (1 − QᵀQ) for an
/// independent R. So, for any shape, they have the same distribution as in a dense stack. GeneratedWeights with the
/// same seed is a different sample. The cost is N² (m + n) operations and N (m + n) numbers instead of N m n and m n.
///
/// Every matrix supports one input tensor and one backward product, as in one pass; a recomputation must use the same
/// tensor. Row t of G and of H uses the same numbers of the stream (seed, layer, matrix) for any number of rows.
class MatrixFreeWeights final : public WeightSource {
 public:
  MatrixFreeWeights(const Backend& backend, StackSpec spec, DType dtype, std::uint64_t seed,
                    StoreFactors store_factors = StoreFactors::no)
      : dense_(backend, spec, dtype, seed),
        backend_(backend),
        spec_(std::move(spec)),
        dtype_(dtype),
        seed_(seed),
        store_factors_(store_factors) {}

  /// Returns the tables of GeneratedWeights. For other matrices, dense() requires a completed pass and
  /// StoreFactors::yes, else it throws std::logic_error. A matrix that the pass did not use equals R.
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return dense_.rows(ops, table, ids);
  }

 private:
  friend class MatrixFreeMap;
  friend class MatrixFreeProduct;

  /// Identifies a matrix by layer and kind.
  using Name = std::pair<int, Weight>;
  /// Bases of the rows that a matrix was multiplied by, in the forward (q) and the backward pass (q2).
  struct Factors {
    Tensor q, q2;
  };
  /// Draws the first `rows` rows of G or H from `stream`.
  [[nodiscard]] Tensor numbers(Name name, Stream stream, Tensor::Index rows, Tensor::Index cols) const;
  /// Returns W as a dense matrix, sampled given its products (formula above).
  [[nodiscard]] Tensor completed(Name name) const;

  GeneratedWeights dense_;
  const Backend& backend_;
  StackSpec spec_;
  DType dtype_;
  std::uint64_t seed_;
  StoreFactors store_factors_;
  mutable std::map<Name, Factors> factors_;
};

}  // namespace periscope
