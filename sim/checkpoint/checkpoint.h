#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkpoint/family.h"
#include "sim/checkpoint/tensor_files.h"

namespace periscope {

/// A folder with config.json and safetensors files: the family that wrote it, the stack that it describes, and the
/// tensors of its parameters. Rejects by name all that could change the function: an unknown key of config.json, a
/// tensor that is missing, unknown or of another shape.
class Checkpoint {
 public:
  /// Reads config.json and the files' headers, no weights. `ignore_keys` are unknown keys of config.json to accept
  /// ("text_config.x" in a nested object). Throws InputError, also as TensorFiles, and ConfigError for an ignored key
  /// that is missing, that the family reads, or that is known to change the function.
  explicit Checkpoint(const std::string& folder, const std::vector<std::string>& ignore_keys = {});
  /// A model in memory, whose own ignored keys count too.
  explicit Checkpoint(std::shared_ptr<const MemoryModel> model, const std::vector<std::string>& ignore_keys = {});

  [[nodiscard]] const std::string& folder() const { return files_.folder(); }
  [[nodiscard]] const Family& family() const { return *family_; }
  [[nodiscard]] const ModelSpec& model() const { return stack_.model; }
  /// True if the unembedding is the embedding's table.
  [[nodiscard]] bool tied() const { return stack_.tied; }
  [[nodiscard]] const TensorFiles& files() const { return files_; }
  /// From parameters to tensors, by their names in the files.
  [[nodiscard]] const ParameterMap& map() const { return stack_.map; }
  /// The parameters in every tensor that is used.
  [[nodiscard]] const std::map<std::string, std::vector<ParameterMap::Use>>& uses() const { return uses_; }
  /// Names an entry of a parameter (row-major) by its place in the tensor: "h.0.attn.c_attn.weight (its q part): entry
  /// 7".
  [[nodiscard]] std::string entry_name(const ParameterId& id, std::int64_t entry) const;
  /// Unused tensors: buffers, copies, parts of larger models.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }
  /// Tensors that may be there as copies of another: {copy, original}.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& copies() const { return stack_.copies; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return stack_.warnings; }
  /// Keys that config.json leaves out, and their default values.
  [[nodiscard]] const std::map<std::string, std::string>& defaults() const { return defaults_; }
  [[nodiscard]] const std::vector<std::string>& ignored_keys() const { return ignored_keys_; }
  [[nodiscard]] const nlohmann::json& config() const { return config_; }
  [[nodiscard]] const MappedFile& config_file() const { return config_file_; }
  /// The stack that the family makes of a config.json beside these files. Throws InputError as the constructor.
  [[nodiscard]] FamilyStack stack_of(ConfigReader& config, const TensorNames& names) const;
  [[nodiscard]] TensorNames tensor_names() const;

 private:
  void read_config();
  void check_tensors();
  void check_shape(const std::string& tensor, const std::vector<ParameterMap::Use>& uses) const;
  [[nodiscard]] bool is_known(const std::string& tensor);
  void check_copy(const std::string& copy, const std::string& original) const;

  std::shared_ptr<const MemoryModel> memory_;  ///< null for a folder
  std::string config_path_;
  MappedFile config_file_;
  nlohmann::json config_;
  std::vector<std::string> ignored_keys_;
  const Family* family_;
  TensorFiles files_;
  FamilyStack stack_;
  std::map<std::string, std::vector<ParameterMap::Use>> uses_;
  std::vector<std::string> unused_;
  std::map<std::string, std::string> defaults_;
};

}  // namespace periscope
