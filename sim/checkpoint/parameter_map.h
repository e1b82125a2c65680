#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/weights.h"

namespace periscope {

/// Where a parameter of a stack is stored: output features first … first + fan_out − 1 of a tensor. A matrix is stored
/// as [out, in], or transposed as [in, out]; a vector as [out].
struct StoredPart {
  std::string tensor;
  std::int64_t first = 0;
  bool transposed = false;
  double plus = 0.0;  ///< added to what is stored: 1 for Gemma's gains 1 + w
};

/// A norm's vectors and its α [1]. Without a stored gain it is 1.
struct StoredNorm {
  std::optional<StoredPart> gain;
  std::optional<StoredPart> bias;
  std::optional<StoredPart> alpha = {};
};

/// The tensors that hold a stack's parameters. One tensor may hold several parameters: parts of a matrix, or a matrix
/// that is used twice.
class ParameterMap {
 public:
  /// Layer and sublayer are ignored for parameters that no layer owns.
  void set(int layer, Weight matrix, StoredPart part) { parts_[matrix_id(layer, matrix)] = std::move(part); }
  void set_bias(int layer, Weight matrix, StoredPart part) {
    parts_[bias_of(matrix_id(layer, matrix))] = std::move(part);
  }
  void set_norm(int sublayer, Weight norm, StoredNorm stored);

  /// Null for what is not stored.
  [[nodiscard]] const StoredPart* find(const ParameterId& id) const;

  template <class NewName>
  void rename_tensors(const NewName& new_name) {
    for (auto& [id, part] : parts_) part.tensor = new_name(part.tensor);
  }

  /// A parameter in a tensor.
  struct Use {
    ParameterId parameter;
    StoredPart part;
    std::int64_t rows;  ///< fan_out
    std::int64_t cols;  ///< fan_in; 0 for a vector
  };
  /// The parameters in every tensor, for the model that this map was made for.
  [[nodiscard]] std::map<std::string, std::vector<Use>> uses(const ModelSpec& model) const;

 private:
  std::map<ParameterId, StoredPart> parts_;
  std::set<ParameterId> norms_;  ///< gains of all norms, stored or not
};

/// Index in the tensor of a parameter's entry, both row-major. `stride` is the tensor's last extent.
[[nodiscard]] std::int64_t place_of(const ParameterMap::Use& use, std::int64_t entry, std::int64_t stride);
/// The parameter's entry at an index of the tensor; nullopt if another parameter's is there.
[[nodiscard]] std::optional<std::int64_t> entry_at(const ParameterMap::Use& use, std::int64_t place,
                                                   std::int64_t stride);

/// The shape of a tensor with these uses: all output features that any of them needs.
[[nodiscard]] std::vector<std::int64_t> stored_shape(const std::vector<ParameterMap::Use>& uses);
[[nodiscard]] std::int64_t product_of(const std::vector<std::int64_t>& shape);

/// Every matrix and norm that a pass from token ids to logits uses.
[[nodiscard]] StackSpec token_stack(const ModelSpec& model);

}  // namespace periscope
