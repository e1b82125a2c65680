#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_type.h"
#include "sim/files/output_file.h"

namespace periscope {

/// A tensor that a file is to hold, row-major.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type = SafetensorsType::f64;
  std::vector<std::int64_t> shape;
};

/// Writes a safetensors file whose tensors come in any order, one at a time, so that memory holds one of them:
/// the header's length in 8 bytes, the header in JSON padded with spaces to a multiple of 8, then the tensors in
/// the order of `entries` without gaps, little-endian. Each begins at a multiple of its elements' bytes if `entries`
/// have the wider types first.
class SafetensorsWriter {
 public:
  /// Reserves the file's room and writes the header into `file`, which is the caller's to commit and outlives this.
  /// `metadata` is for other programs; some want {"format", "pt"}. Throws std::logic_error for a name that comes twice
  /// or is "__metadata__", and for a tensor that ends within a byte; Error as OutputFile does.
  SafetensorsWriter(OutputFile& file, const std::vector<SafetensorsEntry>& entries,
                    const std::map<std::string, std::string>& metadata = {});
  /// Writes into a file of its own, which appears under `path` by close().
  SafetensorsWriter(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                    const std::map<std::string, std::string>& metadata = {});

  /// Writes one tensor. Throws std::logic_error for a name, type or size that the header does not have, and
  /// for a tensor that was written already.
  void put(const std::string& name, std::span<const double> values);
  void put(const std::string& name, std::span<const float> values);
  void put(const std::string& name, std::span<const std::int64_t> values);
  /// Writes a tensor of any type, given as the file is to hold it: row-major, little-endian.
  void put_bytes(const std::string& name, std::span<const std::byte> bytes);

  /// Ends the file. Throws std::logic_error if a tensor is missing; Error as OutputFile does.
  void close();

 private:
  struct Slot {
    SafetensorsType type;
    std::uint64_t bytes;
    std::uint64_t offset;  ///< from the beginning of the file
    bool written;
  };
  void begin(const std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata);
  void put_checked(const std::string& name, std::optional<SafetensorsType> type, std::span<const std::byte> bytes);

  std::optional<OutputFile> own_;
  OutputFile& file_;
  std::map<std::string, Slot> slots_;
};

}  // namespace periscope
