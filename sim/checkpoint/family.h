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

/// The stack of a config.json, and the tensors of its parameters, by the names of the family's public implementation.
struct FamilyStack {
  ModelSpec model;
  ParameterMap map;
  bool tied = false;  ///< the unembedding is the embedding's table
  /// Optional copies of tensors: {copy, original}.
  std::vector<std::pair<std::string, std::string>> copies;
  /// Stored by the public implementation, but not used.
  std::vector<std::string> unread;
  std::vector<std::string> warnings;
};

/// A family of checkpoints. Adding one is a file in families/ that makes its Family, and its row in family.cpp.
struct Family {
  std::string_view name;
  std::string_view other_model_type = {};  ///< config.json's model_type is this or `name`
  std::vector<std::string_view> architectures;
  std::string_view body = "model.";                 ///< prefix of the names of all but the head
  std::string_view anchor = "embed_tokens.weight";  ///< the embedding's name after the prefix
  std::string_view first_layer = "layers.0.";       ///< prefix of the first layer's names after `body`
  std::vector<std::pair<std::string_view, std::string_view>> aliases = {};  ///< ends of names: {today's, older}
  std::vector<std::string_view> other_parts = {};  ///< prefixes of names that are no part of a stack
  /// Default standard deviation of initial weights and tables (initializer_range).
  double init_std = 0.02;
  /// The recipe's init.residual: a factor on the initial W_o and W_down.
  std::string_view init_residual = "1";
  FamilyStack (*read)(ConfigReader& config, const TensorNames& names);
  /// A config.json, untied, from which read() makes `model`, if the family can express it. Null in the program's own
  /// family.
  nlohmann::ordered_json (*write)(const ModelSpec& model);
};

/// Every public family.
std::span<const Family> family_table();

/// The family of a model_type, or null. "periscope" is the family of stacks that no public family computes.
const Family* find_family(std::string_view model_type);
/// A public family, or null.
const Family* family_named(std::string_view name);

/// A tensor's name without wrapping modules in any nesting: torch.compile's _orig_mod, module of data parallelism,
/// base_model.model of PEFT.
[[nodiscard]] std::string unwrapped(std::string_view name);

/// The names of a checkpoint's tensors, whose prefixes may differ from the family's: of a model without its head,
/// inside a larger model, or wrapped.
class TensorNames {
 public:
  /// Finds the prefix. `aliases` are other names of tensors: {alias, name}. Throws InputError naming `where` if no
  /// prefix fits, or several, or for an adapter (LoRA) that is not merged.
  TensorNames(std::vector<std::string> names, const Family& family, const std::string& where,
              const std::map<std::string, std::string>& aliases = {});

  /// The name in the files of the family's `name`, whether or not it exists.
  [[nodiscard]] std::string stored(const std::string& name) const;
  [[nodiscard]] bool contains(const std::string& name) const { return has(plain(name)); }

 private:
  [[nodiscard]] bool has(const std::string& name) const { return names_.contains(name); }
  /// The name in the files without wrappers.
  [[nodiscard]] std::string plain(const std::string& name) const;

  std::map<std::string, std::string> names_;  ///< unwrapped -> as in the files
  const Family& family_;
  std::string prefix_, wrapper_;
};

/// The names of a written checkpoint, with or without head.
TensorNames written_names(const Family& family, bool unembedding);

}  // namespace periscope
