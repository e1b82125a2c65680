#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/run/journal_part.h"

namespace periscope::stacks {

/// A file to which a long run appends every finished piece of its work, so that being killed loses at most the piece
/// in hand. One record per line: "<first 16 hex digits of the payload's SHA-256> <its length> <payload>\n", payload
/// being JSON without line breaks. A record counts once it is whole and on the disk (fsync). The first one is a header
/// that says what the run is.
class Journal {
 public:
  /// Opens or creates `path` and reads its records. A last line that is the beginning of a record was being written
  /// when the process died: it is cut off. Nothing else is: throws InputError, and leaves the file as it is, if it is
  /// no regular file, does not begin with a header or has another damaged line; ConfigError if the header is another
  /// one or another process has the journal open; Error if the file cannot be written.
  Journal(std::string path, const nlohmann::ordered_json& header);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// The records behind the header, in the order in which they were appended.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& records() const { return records_; }
  /// records()[i] for a strict reader, whose messages name the file and the line.
  [[nodiscard]] JournalPart part(std::size_t i) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a record and returns once it is on the disk.
  void append(const nlohmann::ordered_json& record);
  /// Writes a record, which outlives this process, and once a second sees to it that it outlives the machine. It is not
  /// among records().
  void note(const nlohmann::ordered_json& record);

 private:
  /// Reads the records, the header `first` before all; returns the length of the part of the file that is whole.
  std::size_t read_whole(const std::string& text, const nlohmann::ordered_json& first);
  void write(const nlohmann::ordered_json& record, bool sync);

  std::string path_;
  int file_ = -1;
  std::chrono::steady_clock::time_point synced_ = {};
  std::vector<nlohmann::ordered_json> records_;
};

}  // namespace periscope::stacks
