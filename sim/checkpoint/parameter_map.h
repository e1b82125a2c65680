#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/weights.h"

namespace periscope {

/// Where a parameter of a stack is stored: output features first … first + fan_out − 1 of a tensor. A matrix is
/// stored as [out, in], or transposed as [in, out]; a vector as [out].
struct StoredPart {
  std::string tensor;
  std::int64_t first = 0;
  bool transposed = false;
  double plus = 0.0;  ///< added to what is stored: 1 for Gemma's gains 1 + w
};

/// A norm's vectors. What is not stored is a gain of 1 and no bias.
struct StoredNorm {
  std::optional<StoredPart> gain;
  std::optional<StoredPart> bias;
};

/// The tensors that hold a stack's parameters. One tensor may hold several: parts of one matrix, or one matrix that
/// is used twice.
class ParameterMap {
 public:
  /// The layer of what no layer owns does not matter, nor the sublayer of a norm that no sublayer owns.
  void set(int layer, Weight weight, StoredPart part) { matrices_[key(layer, weight)] = std::move(part); }
  void set_bias(int layer, Weight weight, StoredPart part) { biases_[key(layer, weight)] = std::move(part); }
  void set(int sublayer, NormSite site, StoredNorm norm) { norms_[key(sublayer, site)] = std::move(norm); }

  /// Null for what is not stored.
  [[nodiscard]] const StoredPart* find(int layer, Weight weight) const;
  [[nodiscard]] const StoredPart* find_bias(int layer, Weight weight) const;
  [[nodiscard]] const StoredNorm* find(int sublayer, NormSite site) const;

  /// The same map with other names of tensors.
  template <class Rename>
  [[nodiscard]] ParameterMap renamed(const Rename& rename) const {
    ParameterMap all = *this;
    for (auto& [place, part] : all.matrices_) part.tensor = rename(part.tensor);
    for (auto& [place, part] : all.biases_) part.tensor = rename(part.tensor);
    for (auto& [place, norm] : all.norms_) {
      if (norm.gain) norm.gain->tensor = rename(norm.gain->tensor);
      if (norm.bias) norm.bias->tensor = rename(norm.bias->tensor);
    }
    return all;
  }

  /// What one tensor holds.
  struct Use {
    std::string parameter;  ///< named as sim/model/parameters.h does: "layers.0.attention.q.weight"
    StoredPart part;
    std::int64_t rows;  ///< fan_out
    std::int64_t cols;  ///< fan_in; 0 for a vector
  };
  /// Every tensor and what it holds, for the model that this map was made for.
  [[nodiscard]] std::map<std::string, std::vector<Use>> uses(const ModelSpec& model) const;

 private:
  [[nodiscard]] static std::pair<int, Weight> key(int layer, Weight weight) {
    return {is_of_layer(weight) ? layer : 0, weight};
  }
  [[nodiscard]] static std::pair<int, NormSite> key(int sublayer, NormSite site) {
    return {site < NormSite::embedding ? sublayer : 0, site};
  }

  std::map<std::pair<int, Weight>, StoredPart> matrices_;
  std::map<std::pair<int, Weight>, StoredPart> biases_;
  std::map<std::pair<int, NormSite>, StoredNorm> norms_;
};

/// The shape of a tensor with these uses: all output features that any of them needs.
[[nodiscard]] std::vector<std::int64_t> stored_shape(const std::vector<ParameterMap::Use>& uses);

/// Features that a norm has: D, those of a head or of a whole projection, or the head's.
[[nodiscard]] int norm_width(const ModelSpec& model, NormSite site);

/// Every matrix and norm that a pass from token ids to logits uses.
[[nodiscard]] StackSpec token_stack(const ModelSpec& model);

}  // namespace periscope
