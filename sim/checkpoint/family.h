#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/checkpoint/config_reader.h"
#include "sim/checkpoint/parameter_map.h"

namespace periscope {

class TensorNames;

/// Stack described by a config.json, and the tensors of its parameters, named as in the family's public implementation.
struct FamilyStack {
  ModelSpec model;
  ParameterMap map;
  bool tied = false;  ///< unembedding and embedding share one table
  /// Optional copies of tensors: {copy, original}.
  std::vector<std::pair<std::string, std::string>> copies;
  /// Tensors that the public implementation stores, but does not use.
  std::vector<std::string> unread;
  /// Tensors [1] with the values of model.layer_scales, one per layer; empty if the family has none.
  std::vector<std::string> layer_scales;
  std::vector<std::string> warnings;
};

/// A family of checkpoints. To add one, define its Family in a file in families/ and add a row in family.cpp.
struct Family {
  std::string_view name;
  std::string_view other_model_type = {};  ///< alternative to `name` as model_type in config.json
  std::vector<std::string_view> architectures;
  std::string_view body = "model.";                 ///< prefix of all tensor names except the head's
  std::string_view anchor = "embed_tokens.weight";  ///< name of the embedding after the prefix
  std::string_view first_layer = "layers.0.";       ///< prefix of names in the first layer, after `body`
  std::vector<std::pair<std::string_view, std::string_view>> aliases = {};  ///< suffixes of names: {current, older}
  std::vector<std::string_view> other_parts = {};  ///< prefixes of tensors that do not belong to the stack
  /// Default standard deviation of the initial weights and tables (initializer_range).
  double init_std = 0.02;
  /// init.residual of the recipe: factor that multiplies the initial W_o and W_down.
  std::string_view init_residual = "1";
  bool has_experts = false;  ///< mixture of experts, which only certify and info read
  FamilyStack (*read)(ConfigReader& config, const TensorNames& names);
  /// Returns a config.json without tied weights, from which read() restores a supported model. Null for families that
  /// are not in family_table().
  nlohmann::ordered_json (*write)(const ModelSpec& model);
};

/// All public families without mixtures of experts.
std::span<const Family> family_table();

/// Looks up a family by model_type; null if unknown. Includes mixtures of experts, and "periscope", for stacks that no
/// public family supports.
const Family* find_family(std::string_view model_type);
/// Returns the expected value for error messages about a known, but unsupported model_type, such as "a family without
/// mixtures of experts"; "" for any other.
std::string_view expected_instead_of(std::string_view model_type);
/// Looks up a public family by name; null if unknown.
const Family* family_named(std::string_view name);

/// Removes wrapping modules, nested or not, from a tensor's name: _orig_mod (torch.compile), module (data parallelism),
/// base_model.model (PEFT).
[[nodiscard]] std::string unwrapped(std::string_view name);

/// Names of a checkpoint's tensors, with prefixes that depend on the head, the enclosing model and wrappers.
class TensorNames {
 public:
  /// Determines the prefix. `aliases` are other names of tensors: {alias, name}. Throws InputError, which names
  /// `where`, if no prefix or several prefixes match, or for an unmerged adapter (LoRA).
  TensorNames(std::vector<std::string> names, const Family& family, const std::string& where,
              const std::map<std::string, std::string>& aliases = {});

  /// Returns the name in the files for the family's `name`, even if no such tensor exists.
  [[nodiscard]] std::string stored(const std::string& name) const;
  [[nodiscard]] bool contains(const std::string& name) const { return has(plain(name)); }

 private:
  [[nodiscard]] bool has(const std::string& name) const { return names_.contains(name); }
  /// Returns the name in the files without wrappers.
  [[nodiscard]] std::string plain(const std::string& name) const;

  std::map<std::string, std::string> names_;  ///< unwrapped name -> name in the files
  const Family& family_;
  std::string prefix_, wrapper_;
};

/// Tensor names of a written checkpoint, with or without a head.
TensorNames written_names(const Family& family, bool unembedding);

}  // namespace periscope
