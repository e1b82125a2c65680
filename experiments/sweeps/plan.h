#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/settings/toml_reader.h"
#include "experiments/engine/study/study.h"

/// Sweeps: a study is run for every cell of a grid of configurations, in shards; see docs/sweeps.md.
namespace periscope::sweeps {

using config::Json;

/// A key of a configuration, such as "model.width", with its value.
using Setting = std::pair<std::string, Json>;

/// Keys that vary together, each with a list of `size` values; one dimension of the sweep. The values of the first key,
/// after which the dimension is named, differ.
struct GridAxis {
  std::vector<std::pair<std::string, std::vector<Json>>> keys;

  [[nodiscard]] const std::string& name() const { return keys.front().first; }
  [[nodiscard]] std::size_t size() const { return keys.front().second.size(); }
};

/// A plan before it is checked, as read from a file, the command line or Python.
struct Draft {
  std::string study;
  study::FlagValues flags;
  config::Tree base;            ///< configuration of all cells
  std::vector<GridAxis> axes;   ///< the last one varies fastest
  std::string source = "plan";  ///< name of the file, for messages
};

/// A study and a grid of configurations. Cell i is the i-th combination of the axes' values in row-major order.
class GridPlan {
 public:
  /// A study with parts and no swept keys gets an axis of its parts. Throws ConfigError for an unknown study or flag, a
  /// key that is listed twice, lists of different lengths, keys that cannot be swept, and more than 10^7 cells. Values
  /// are checked when cells are resolved.
  explicit GridPlan(const Draft& draft);
  /// Reads json(). Throws InputError, naming `path`.
  static GridPlan read(const std::string& path);

  /// Returns the plan as JSON; it lists the keys, not the cells. Relative paths of input.path are made absolute.
  [[nodiscard]] Json json() const;

  [[nodiscard]] const study::Study& study() const { return *study_; }
  [[nodiscard]] const study::FlagValues& flags() const { return flags_; }
  /// Returns the SHA-256 of the files and folders that flags name, such as a checkpoint; "" for none. Reads them at the
  /// first call. Throws InputError.
  [[nodiscard]] const std::string& files_of_flags() const;
  /// Reads these files again. Throws InputError if they have changed.
  void require_unchanged_files() const;
  /// Returns whether the cells are parts of one request, which store their results outside the cells.
  [[nodiscard]] bool has_parts() const;
  [[nodiscard]] const std::vector<GridAxis>& axes() const { return axes_; }
  [[nodiscard]] std::size_t cells() const { return cells_; }
  /// Number of consecutive cells that are stored in one file: 1, unless there are more than 10^4 cells.
  [[nodiscard]] std::size_t cells_per_block() const;
  [[nodiscard]] std::size_t blocks() const;
  /// Returns the index along axis `axis` of a cell.
  [[nodiscard]] std::size_t index_of(std::size_t cell, std::size_t axis) const;
  /// Returns the values of the swept keys, such as "model.layers = 12, model.placement = pre".
  [[nodiscard]] std::string label(std::size_t cell) const;
  /// Returns the request of a cell. `threads`: 0 for the default.
  [[nodiscard]] study::Request request(std::size_t cell, int threads = 0) const;

 private:
  [[nodiscard]] std::string hash_of_files() const;

  const study::Study* study_;
  study::FlagValues flags_;
  std::vector<Setting> base_;
  std::vector<GridAxis> axes_;
  std::vector<std::size_t> periods_;  ///< of each axis: number of consecutive cells with the same value
  std::size_t cells_ = 1;
  config::Tree tree_;  ///< of base_
  struct LazyText {
    std::once_flag once;
    std::string text;
  };
  std::shared_ptr<LazyText> files_of_flags_ = std::make_shared<LazyText>();
  std::shared_ptr<config::TextFiles> texts_ = std::make_shared<config::TextFiles>();
};

/// Returns the SHA-256 of a file, or of all files of a folder with their names; "" if the path does not exist. Throws
/// InputError if one cannot be read.
std::string content_hash(const std::string& path);

/// Reads a plan's TOML file: [sweep] with `study` and its flags, [sweep.grid], [[sweep.zip]] and [base], a
/// configuration or the path of its file. Throws ConfigError.
Draft read_draft(const std::string& file);

/// Returns the study with this name that can be swept. Throws ConfigError, which suggests a similar name.
const study::Study& study_of_sweep(const std::string& name);

/// Returns the keys and values of arguments "model.layers=[12, 24]" of `flag`. Throws ConfigError unless the values are
/// lists.
std::vector<std::pair<std::string, std::vector<Json>>> lists_of(const std::vector<std::string>& arguments,
                                                                std::string_view flag);

/// Returns the values of flags "NAME" or "NAME=VALUE".
study::FlagValues flags_of(const std::vector<std::string>& words);

}  // namespace periscope::sweeps
