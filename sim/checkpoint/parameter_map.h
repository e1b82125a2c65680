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

/// Location of a parameter: output features first … first + fan_out − 1 of a tensor, in this order or in blocks, such
/// as heads. Matrices are stored as [out, in], or transposed as [in, out]; vectors as [out].
struct StoredPart {
  std::string tensor;
  std::int64_t first = 0;
  bool transposed = false;
  double plus = 0.0;  ///< added to stored values: 1 for Gemma's gains 1 + w
  /// Permutation of 0 … size − 1: feature i of block b is feature first + b·stride + order[i] of the tensor. Empty
  /// means the order of the tensor.
  std::vector<std::int64_t> order = {};
  std::int64_t stride = 0;

  /// Returns the tensor's feature that stores feature `row` of the parameter.
  [[nodiscard]] std::int64_t feature(std::int64_t row) const;
  /// The inverse of feature(); nullopt if the feature belongs to a different parameter. `rows` is the fan_out.
  [[nodiscard]] std::optional<std::int64_t> row_of(std::int64_t feature, std::int64_t rows) const;
};

/// Gain, bias and α [1] of a norm. Without a stored gain, the gain is 1.
struct StoredNorm {
  std::optional<StoredPart> gain;
  std::optional<StoredPart> bias;
  std::optional<StoredPart> alpha = {};
};

/// Locations of a stack's parameters. A tensor may contain several parameters, or a matrix that is used twice.
class ParameterMap {
 public:
  /// Layer and sublayer are ignored for parameters outside layers.
  void set(int layer, Weight matrix, StoredPart part, int expert = -1) {
    parts_[matrix_id(layer, matrix, expert)] = std::move(part);
  }
  void set_bias(int layer, Weight matrix, StoredPart part) {
    parts_[bias_of(matrix_id(layer, matrix))] = std::move(part);
  }
  void set_norm(int sublayer, Weight norm, StoredNorm stored);

  /// Returns nullptr if the parameter is not stored.
  [[nodiscard]] const StoredPart* find(const ParameterId& id) const;

  template <class NewName>
  void rename_tensors(const NewName& new_name) {
    for (auto& [id, part] : parts_) part.tensor = new_name(part.tensor);
  }

  /// A parameter stored in a tensor.
  struct Use {
    ParameterId parameter;
    StoredPart part;
    std::int64_t rows;  ///< fan_out
    std::int64_t cols;  ///< fan_in; 0 for a vector
  };
  /// Returns the parameters stored in each tensor, for the model of this map.
  [[nodiscard]] std::map<std::string, std::vector<Use>> uses(const ModelSpec& model) const;

 private:
  std::map<ParameterId, StoredPart> parts_;
  std::set<ParameterId> norms_;  ///< gains of all norms, stored or not
};

/// Converts a row-major index into a parameter to one into its tensor, whose last dimension is `stride`.
[[nodiscard]] std::int64_t stored_index(const ParameterMap::Use& use, std::int64_t entry, std::int64_t stride);
/// The inverse of stored_index; nullopt if the element of the tensor belongs to a different parameter.
[[nodiscard]] std::optional<std::int64_t> entry_at(const ParameterMap::Use& use, std::int64_t index,
                                                   std::int64_t stride);

/// Returns the shape of a tensor with these uses, large enough for the output features of every use.
[[nodiscard]] std::vector<std::int64_t> stored_shape(const std::vector<ParameterMap::Use>& uses);
[[nodiscard]] std::int64_t product_of(const std::vector<std::int64_t>& shape);

/// Returns a stack with token input, so that it uses every matrix and norm from token ids to logits.
[[nodiscard]] StackSpec token_stack(const ModelSpec& model);

}  // namespace periscope
