#pragma once

#include <cstdint>
#include <span>

#include "sim/core/backend.h"
#include "sim/spec/weight.h"

namespace periscope {

/// Gain [1, n] and bias [1, n] (empty for RMSNorm) of one norm.
struct NormWeights {
  Tensor gain;
  Tensor bias;
  double plus = 0.0;  ///< what the gains are stored without: 1 if w of 1 + w is stored (Gemma)
};

/// Weights as a function: where a stack's parameters come from. A matrix may be drawn at every call,
/// so a stack of any depth needs the memory of one sublayer. No function has a default here: a source that edits or
/// keeps another's weights would lose what it forgets.
class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  /// W [fan_out, fan_in]. `layer` is ignored for what no layer owns (is_of_layer).
  [[nodiscard]] virtual Tensor matrix(int layer, Weight weight) const = 0;
  /// Rows `ids` of a table (is_table) [ids.size(), its width]: those alone if the source can, or else
  /// rows_of_matrix.
  [[nodiscard]] virtual Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const = 0;
  /// What is added to x Wᵀ [1, fan_out]; empty for none, as in every random stack.
  [[nodiscard]] virtual Tensor bias(int layer, Weight weight) const = 0;
  /// `sublayer` is ignored for the norms that no sublayer owns.
  [[nodiscard]] virtual NormWeights norm(int sublayer, NormSite site) const = 0;

 protected:
  /// Rows `ids` of the whole table: `rows` of a source that has no shorter way to them.
  [[nodiscard]] Tensor rows_of_matrix(const Backend& ops, Weight table, std::span<const int> ids) const {
    return ops.gather(matrix(0, table), ids);
  }
};

/// Random weights of one seed: entry i of a matrix is number i of the stream (seed, layer, matrix),
/// the same on every backend, for any number of threads, now and later.
class GeneratedWeights final : public WeightSource {
 public:
  GeneratedWeights(const Backend& backend, StackSpec spec, DType dtype, std::uint64_t seed)
      : backend_(backend), spec_(std::move(spec)), dtype_(dtype), seed_(seed) {}

  [[nodiscard]] Tensor matrix(int layer, Weight weight) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return rows_of_matrix(ops, table, ids);
  }
  [[nodiscard]] Tensor bias(int /*layer*/, Weight /*weight*/) const override { return {}; }
  [[nodiscard]] NormWeights norm(int sublayer, NormSite site) const override;

 private:
  const Backend& backend_;
  StackSpec spec_;
  DType dtype_;
  std::uint64_t seed_;
};

}  // namespace periscope
