#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace periscope::testing {

/// The folder of one of the project's tiny checkpoints (fixtures/make_fixtures.py).
std::string fixture(const std::string& name);
/// All their names.
std::vector<std::string> fixture_names();

/// A copy of a fixture to change: its config.json and its tensors, in F64.
class EditedCheckpoint {
 public:
  struct Contents {
    std::vector<std::int64_t> shape;
    std::vector<double> values;
  };

  explicit EditedCheckpoint(const std::string& name);

  nlohmann::json config;
  std::map<std::string, Contents> tensors;
  std::string integer_tensor;  ///< one to be stored as I64 all the same

  /// A tensor of ones.
  void add(const std::string& tensor, std::vector<std::int64_t> shape);
  void rename(const std::string& from, const std::string& to);
  /// Replaces the beginning of every tensor's name.
  void rename_prefix(const std::string& from, const std::string& to);

  /// Writes both files and returns the folder, which lives as long as this does.
  std::string write();

 private:
  TemporaryFolder folder_;
};

}  // namespace periscope::testing
