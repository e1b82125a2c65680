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

/// The stack that a config.json describes, and the tensors that hold its parameters, under the names that the family's
/// public implementation gives them.
struct FamilyStack {
  ModelSpec model;
  ParameterMap map;
  bool tied = false;  ///< the unembedding is the embedding's table
  /// Tensors that may be there as copies of another: {copy, original}.
  std::vector<std::pair<std::string, std::string>> copies;
  /// Tensors that the public implementation stores and does not use.
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
  /// Standard deviation of the initial weights where config.json does not say it (initializer_range), tables included.
  double init_std = 0.02;
  /// The recipe's init.residual: a factor on the initial W_o and W_down.
  std::string_view init_residual = "1";
  FamilyStack (*read)(ConfigReader& config, const TensorNames& names);
  /// A config.json, untied, from which read() makes `model` again, if the family can express it.
  /// Null in the program's own family.
  nlohmann::ordered_json (*write)(const ModelSpec& model);
};

/// Every public family. This table is the only place that lists them.
std::span<const Family> family_table();

/// The family of a model_type, or null. Besides those of the table there is "periscope", which this program writes of
/// stacks that no other family computes.
const Family* find_family(std::string_view model_type);
/// The family of that name, or null.
const Family* family_named(std::string_view name);

/// Returns a tensor's name without the names of modules that wrap a model or a part of it: torch.compile's _orig_mod,
/// module of data parallelism, base_model.model of PEFT, in any nesting.
[[nodiscard]] std::string unwrapped(std::string_view name);

/// The names of a checkpoint's tensors, which may have other prefixes than the family's, as in files of a model
/// without its head, or inside a larger model, or wrapped.
class TensorNames {
 public:
  /// Finds the prefix. `aliases` are other names of tensors: {alias, name}. Throws InputError naming `where` if no
  /// prefix fits, or several, or for an adapter (LoRA) that is not merged.
  TensorNames(std::vector<std::string> names, const Family& family, const std::string& where,
              const std::map<std::string, std::string>& aliases = {});

  /// The name in the files of what the family calls `name`, whether or not it is there.
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

/// The names that a family's read() asks for: what it writes has all of them, or no head.
TensorNames written_names(const Family& family, bool unembedding);

}  // namespace periscope
