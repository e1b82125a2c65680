#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/base/interface.h"
#include "sim/model/linear_map.h"
#include "sim/spec/weight.h"

namespace periscope {

/// A matrix of a stack and its bias [1, fan_out], which is empty if there is none. Random stacks have no biases.
struct LinearWeights {
  std::shared_ptr<const LinearMap> map;
  Tensor bias;
  std::vector<std::shared_ptr<const LinearMap>> experts = {};  ///< one matrix per expert of a mixture, instead of `map`
};

/// Gain [1, n], bias [1, n] (empty for RMSNorm) and α [1, 1] (empty if the kind has none) of one norm.
struct NormWeights {
  Tensor gain;
  Tensor bias;
  double plus = 0.0;  ///< offset added to stored gains: 1 if the checkpoint stores w of a gain 1 + w (Gemma)
  Tensor alpha = {};
};

/// Weights of one sublayer, or of the parts before the first sublayer or after the last.
struct SublayerWeights {
  std::map<Weight, LinearWeights> linear;
  std::map<Weight, NormWeights> norms;

  /// Throws std::logic_error if the weight is missing; the message names it.
  [[nodiscard]] const LinearWeights& matrix(Weight weight) const;
  [[nodiscard]] const NormWeights& norm(Weight weight) const;
};

/// Source of a stack's parameters. Matrices may be generated for every product, so a stack of any depth needs the
/// memory of one sublayer. fetch() has no default implementation, because a source that modifies another source would
/// silently lose weights.
class WeightSource : public Interface {
 public:
  /// Returns the weights of sublayer 0 … 2L−1; for −1 the tables, project_in and the embedding norm; for 2L the final
  /// norm and the head. Maps are valid while the source exists.
  [[nodiscard]] virtual SublayerWeights fetch(int sublayer) const = 0;
  /// Returns rows `ids` of a table (is_table). Override it to avoid computing the whole table.
  [[nodiscard]] virtual Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const;
};

/// Returns one parameter as a whole; empty for a missing bias or α.
[[nodiscard]] Tensor parameter_of(const WeightSource& source, const ModelSpec& model, const ParameterId& id);

/// Random weights of one seed: entry i of a matrix is number i of the stream (seed, layer, matrix), reproducible across
/// backends, thread counts and versions. Distributions are defined by stddev_of, bias_stddev_of, gain_of and alpha_of
/// (sim/spec/weight.h); without scales, biases are 0.
class GeneratedWeights final : public WeightSource {
 public:
  GeneratedWeights(const Backend& backend, StackSpec spec, DType dtype, std::uint64_t seed)
      : backend_(backend), spec_(std::move(spec)), dtype_(dtype), seed_(seed) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Generates only these rows.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

  /// Returns a matrix or table. `layer` is 0 for matrices outside layers.
  [[nodiscard]] std::shared_ptr<const LinearMap> matrix(int layer, Weight weight) const;

 private:
  [[nodiscard]] NormWeights norm(int sublayer, Weight weight) const;
  /// Bias [1, width] of a matrix or norm; empty if its standard deviation is 0.
  [[nodiscard]] Tensor bias(const ParameterId& of, int width) const;

  const Backend& backend_;
  StackSpec spec_;
  DType dtype_;
  std::uint64_t seed_;
};

}  // namespace periscope
