#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace periscope {

/// A file to which a long run appends every finished piece of its work, so that being killed loses at most the piece
/// in hand. One record per line: "<first 16 hex digits of the payload's SHA-256> <its length> <payload>\n", payload
/// being JSON without line breaks. A record counts once it is whole and on the disk (fsync). The first one is a header
/// that says what the run is.
class Journal {
 public:
  /// Opens or creates `path` and reads its records. A last line that is not whole was being written when the process
  /// died: it is cut off. Throws InputError if an earlier line is damaged, ConfigError if the header is another one or
  /// another process has the journal open, Error if the file cannot be written.
  Journal(std::string path, const nlohmann::ordered_json& header);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// The records behind the header, in the order in which they were appended.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& records() const { return records_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a record and returns once it is on the disk.
  void append(const nlohmann::ordered_json& record);
  /// Writes a record, which outlives this process, and once a second sees to it that it outlives the machine. It is not
  /// among records().
  void note(const nlohmann::ordered_json& record);

 private:
  /// Reads the records; returns the length of the part of the file that is whole.
  std::size_t read_whole(const std::string& text);
  void write(const nlohmann::ordered_json& record, bool sync);

  std::string path_;
  int file_ = -1;
  std::chrono::steady_clock::time_point synced_ = {};
  std::vector<nlohmann::ordered_json> records_;
};

}  // namespace periscope
