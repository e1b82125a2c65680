#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace periscope::testing {

/// Returns the folder of a small checkpoint (fixtures/make_fixtures.py).
std::string fixture(const std::string& name);
std::vector<std::string> fixture_names();

/// An editable copy of a fixture: config.json and tensors in F64.
class EditedCheckpoint {
 public:
  struct Contents {
    std::vector<std::int64_t> shape;
    std::vector<double> values;
  };

  explicit EditedCheckpoint(const std::string& name);

  nlohmann::json config;
  std::map<std::string, Contents> tensors;
  std::map<std::string, std::string> metadata;  ///< metadata of model.safetensors
  std::string integer_tensor;                   ///< name of a tensor to store as I64

  /// Adds a tensor of ones.
  void add(const std::string& tensor, std::vector<std::int64_t> shape);
  void rename(const std::string& from, const std::string& to);
  /// Replaces the prefix `from` of tensor names by `to`.
  void rename_prefix(const std::string& from, const std::string& to);

  /// Writes both files and returns the folder, which is deleted with this object.
  std::string write();

  /// Turns a copy of the fixture mistral or qwen3 into one of mixtral or qwen3_moe. Every expert has the fixture's
  /// matrices, and the router is 0.
  void make_mixture(int experts, int per_token);
  /// Returns the name of an expert's matrix, "gate", "up" or "down", or of the router, after make_mixture.
  [[nodiscard]] std::string mixture_tensor(int layer, int expert, const std::string& matrix) const;

 private:
  TemporaryFolder folder_;
};

}  // namespace periscope::testing
