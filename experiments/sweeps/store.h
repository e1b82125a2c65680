#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/sweeps/cells.h"
#include "sim/base/error.h"

namespace periscope::sweeps {

/// Result of a cell. Contains nothing about time, machine or threads.
struct StoredCell {
  CellId id{};
  ExitCode code = ExitCode::ok;
  /// Dimensions, columns without values, and attributes of the dataset, encoded; null for a cell that failed. The cells
  /// of a file share equal layouts and coordinates.
  std::shared_ptr<const std::string> layout;
  std::shared_ptr<const std::string> coordinates;  ///< values of coordinates and labels, encoded
  std::string values;  ///< values of the other columns, encoded; the message of a cell that failed

  [[nodiscard]] bool failed() const { return layout == nullptr; }
};

StoredCell stored_cell(const CellId& id, ExitCode code, const dataset::Dataset& data);
StoredCell failed_cell(const CellId& id, ExitCode code, const std::string& message);

/// Decodes a cell that did not fail. Throws InputError.
dataset::Dataset dataset_of(const StoredCell& cell);
/// Decodes a layout into a dataset without values. Throws InputError.
dataset::Dataset layout_of(const std::string& layout);
/// Decodes the values of columns, in order. Throws InputError.
std::vector<dataset::Values> values_of(const std::string& values);
/// Returns true for coordinates and labels of one dimension.
bool is_coordinate_or_label(const dataset::Column& column);

/// Returns the path in `folder` of the file that stores the cells with these ids.
std::string block_file(const std::string& folder, const std::vector<CellId>& ids);

/// Writes cells to their file, atomically. The bytes depend only on the cells.
void write_block(const std::string& folder, const std::vector<StoredCell>& cells);

/// Reads a file of cells. Throws InputError if it is damaged or not a file of cells.
std::vector<StoredCell> read_block(const std::string& path);

/// The cells in a folder, by id.
class CellIndex {
 public:
  struct Entry {
    CellId id{};
    std::uint32_t file = 0;
    bool failed = false;
    ExitCode code = ExitCode::ok;
    auto key() const { return std::tie(id, failed); }
  };

  /// Reads the files in `folder`/cells on all threads and verifies their checksums.
  explicit CellIndex(const std::string& folder);

  /// Returns null if the cell is not stored. A result takes precedence over a failure.
  [[nodiscard]] const Entry* find(const CellId& id) const;
  [[nodiscard]] const std::string& path(const Entry& entry) const { return files_[entry.file]; }
  /// Messages on damaged and foreign files, which are ignored.
  [[nodiscard]] const std::vector<std::string>& damaged() const { return damaged_; }

 private:
  std::vector<std::string> files_;
  std::vector<Entry> entries_;  ///< sorted
  std::vector<std::string> damaged_;
};

/// Reads cells of an index; keeps the file of the last cell in memory.
class CellReader {
 public:
  explicit CellReader(const CellIndex& index) : index_(&index) {}
  /// Returns null if the cell is not stored or its file was removed. Valid until the next call.
  [[nodiscard]] const StoredCell* read(const CellId& id);

 private:
  const CellIndex* index_;
  std::string path_;
  std::vector<StoredCell> cells_;
};

}  // namespace periscope::sweeps
