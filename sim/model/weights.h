#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "sim/base/interface.h"
#include "sim/model/linear_map.h"
#include "sim/spec/weight.h"

namespace periscope {

/// A matrix of a stack with its bias [1, fan_out], which is empty if there is none, as in every random stack.
struct LinearWeights {
  std::shared_ptr<const LinearMap> map;
  Tensor bias;
};

/// Gain [1, n], bias [1, n] (empty for RMSNorm) and α [1, 1] (empty where the kind has none) of one norm.
struct NormWeights {
  Tensor gain;
  Tensor bias;
  double plus = 0.0;  ///< what the gains are stored without: 1 if w of 1 + w is stored (Gemma)
  Tensor alpha = {};
};

/// All that one sublayer needs, or what lies before the first one or after the last.
struct SublayerWeights {
  std::map<Weight, LinearWeights> linear;
  std::map<Weight, NormWeights> norms;

  /// Throw std::logic_error that names a weight which is not there.
  [[nodiscard]] const LinearWeights& matrix(Weight weight) const;
  [[nodiscard]] const NormWeights& norm(Weight weight) const;
};

/// A source of a stack's parameters. Matrices may be drawn at every reading, so a stack of any depth needs the memory
/// of one sublayer. No function has a default here: a source that edits another's weights would lose what it forgets.
class WeightSource : public Interface {
 public:
  /// Weights of sublayer 0 … 2L−1; of −1: tables, project_in and the embedding norm; of 2L: the final norm and the
  /// head. Its maps may be read as long as the source lives.
  [[nodiscard]] virtual SublayerWeights fetch(int sublayer) const = 0;
  /// Rows `ids` of a table (is_table) [ids.size(), its width]. Override it if the source need not make the others.
  [[nodiscard]] virtual Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const;
};

/// One parameter, whole; empty for a bias or an α that there is not.
[[nodiscard]] Tensor parameter_of(const WeightSource& source, const ModelSpec& model, const ParameterId& id);

/// Random weights of one seed: entry i of a matrix is number i of the stream (seed, layer, matrix),
/// the same on every backend, for any number of threads, now and later. Standard deviations and gains are stddev_of,
/// bias_stddev_of, gain_of and alpha_of: without scales biases are 0.
class GeneratedWeights final : public WeightSource {
 public:
  GeneratedWeights(const Backend& backend, StackSpec spec, DType dtype, std::uint64_t seed)
      : backend_(backend), spec_(std::move(spec)), dtype_(dtype), seed_(seed) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Draws no other rows.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

  /// A matrix or table. The layer of what no layer owns is 0.
  [[nodiscard]] std::shared_ptr<const LinearMap> matrix(int layer, Weight weight) const;

 private:
  [[nodiscard]] NormWeights norm(int sublayer, Weight weight) const;
  /// The bias [1, width] that goes with a matrix or gain; empty where its standard deviation is 0.
  [[nodiscard]] Tensor bias(const ParameterId& of, int width) const;

  const Backend& backend_;
  StackSpec spec_;
  DType dtype_;
  std::uint64_t seed_;
};

}  // namespace periscope
