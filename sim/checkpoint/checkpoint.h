#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkpoint/family.h"
#include "sim/checkpoint/tensor_files.h"

namespace periscope {

/// A folder with config.json and safetensors files: the family, the stack that config.json describes, and the tensors
/// of its parameters. Everything that could change the model's function is rejected: an unknown key of config.json, and
/// a tensor that is missing, unknown or has a wrong shape.
class Checkpoint {
 public:
  /// Whether to reject a checkpoint that stores a tied tensor twice with different values.
  enum class TiedCopies { must_be_equal, may_differ };
  /// Whether to accept mixtures of experts. Callers that run the model must reject them.
  enum class Mixtures { rejected, read };

  /// Reads config.json and the files' headers, but no weights. `ignore_keys` are unknown keys of config.json to accept
  /// ("text_config.x" in a nested object). Throws InputError like TensorFiles, or if a check fails. Throws
  /// ConfigError for an ignored key that is missing, that the family reads, or that is known to change the function.
  explicit Checkpoint(const std::string& folder, const std::vector<std::string>& ignore_keys = {},
                      TiedCopies tied_copies = TiedCopies::must_be_equal, Mixtures mixtures = Mixtures::rejected);
  /// Reads a model in memory, but no mixture of experts; `ignore_keys` extends the model's own list of ignored keys.
  explicit Checkpoint(std::shared_ptr<const MemoryModel> model, const std::vector<std::string>& ignore_keys = {},
                      TiedCopies tied_copies = TiedCopies::must_be_equal);

  [[nodiscard]] const std::string& folder() const { return files_.folder(); }
  [[nodiscard]] const Family& family() const { return *family_; }
  [[nodiscard]] const ModelSpec& model() const { return stack_.model; }
  /// True if unembedding and embedding share one table.
  [[nodiscard]] bool tied() const { return stack_.tied; }
  [[nodiscard]] const TensorFiles& files() const { return files_; }
  /// The locations of all parameters, with the tensors' names in the files.
  [[nodiscard]] const ParameterMap& map() const { return stack_.map; }
  /// Parameters stored in each used tensor, by the tensor's name.
  [[nodiscard]] const std::map<std::string, std::vector<ParameterMap::Use>>& uses() const { return uses_; }
  /// Describes an entry of a parameter (row-major) by its tensor: "h.0.attn.c_attn.weight (q part): entry 7".
  [[nodiscard]] std::string entry_name(const ParameterId& id, std::int64_t entry) const;
  /// Unused tensors: buffers, copies, and parts of larger models.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }
  /// True for a tensor of a larger model that does not belong to the stack, such as a vision tower.
  [[nodiscard]] bool is_of_other_part(const std::string& tensor) const;
  /// Tensors of model().layer_scales.
  [[nodiscard]] const std::vector<std::string>& layer_scales() const { return stack_.layer_scales; }
  /// Optional copies of other tensors: {copy, original}.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& copies() const { return stack_.copies; }
  /// Returns the first property, "shape" or "value", in which a copy differs from its original; "" if they are equal or
  /// one of them is not stored.
  [[nodiscard]] std::string difference(const std::string& copy, const std::string& original) const;
  [[nodiscard]] const std::vector<std::string>& warnings() const { return stack_.warnings; }
  /// Keys missing from config.json, with the default values used for them.
  [[nodiscard]] const std::map<std::string, std::string>& defaults() const { return defaults_; }
  [[nodiscard]] const std::vector<std::string>& ignored_keys() const { return ignored_keys_; }
  [[nodiscard]] const nlohmann::json& config() const { return config_; }
  [[nodiscard]] const MappedFile& config_file() const { return config_file_; }
  /// Returns the stack that `config` describes, with tensors called `names`. Throws InputError like the constructor.
  [[nodiscard]] FamilyStack stack_of(ConfigReader& config, const TensorNames& names) const;
  [[nodiscard]] TensorNames tensor_names() const;

 private:
  void read_config();
  /// Reads model.layer_scales. If weights are only checked (TiedCopies::may_differ), invalid values become 1.
  void read_layer_scales(TiedCopies tied_copies);
  void check_tensors(TiedCopies tied_copies);
  /// `meaning` describes the tensor in the message.
  void check_shape(const std::string& tensor, const std::vector<std::int64_t>& expected,
                   const std::string& meaning) const;
  [[nodiscard]] bool is_known(const std::string& tensor, TiedCopies tied_copies) const;

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
