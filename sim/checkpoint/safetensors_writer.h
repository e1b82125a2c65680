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

/// Description of a tensor to write, row-major.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type = SafetensorsType::f64;
  std::vector<std::int64_t> shape;
};

/// Writes a safetensors file, one tensor at a time in any order: the header's length in 8 bytes, the JSON header padded
/// with spaces to a multiple of 8, then the tensors in the order of `entries` without gaps, little-endian. Tensors are
/// aligned to their element size if `entries` lists wider types first.
class SafetensorsWriter {
 public:
  /// Reserves the file's size and writes the header into `file`, which the caller commits and which must outlive this
  /// object. `metadata` is for other programs; some expect {"format", "pt"}. Throws std::logic_error for a repeated
  /// name, "__metadata__", and a tensor whose size is not a whole number of bytes. Also throws like OutputFile.
  SafetensorsWriter(OutputFile& file, const std::vector<SafetensorsEntry>& entries,
                    const std::map<std::string, std::string>& metadata = {});
  /// Writes to `path`, which is created by close().
  SafetensorsWriter(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                    const std::map<std::string, std::string>& metadata = {});

  /// Writes one tensor. Throws std::logic_error for a wrong name, type or size, or if it was already written.
  void put(const std::string& name, std::span<const double> values) {
    put_bytes(name, std::as_bytes(values), SafetensorsType::f64);
  }
  void put(const std::string& name, std::span<const float> values) {
    put_bytes(name, std::as_bytes(values), SafetensorsType::f32);
  }
  void put(const std::string& name, std::span<const std::int64_t> values) {
    put_bytes(name, std::as_bytes(values), SafetensorsType::i64);
  }
  /// Writes the stored bytes of a tensor: row-major, little-endian. Checks `type` if given.
  void put_bytes(const std::string& name, std::span<const std::byte> bytes, std::optional<SafetensorsType> type = {});

  /// Completes the file. Throws std::logic_error if a tensor is missing; otherwise throws like OutputFile.
  void close();

 private:
  struct Slot {
    SafetensorsType type;
    std::uint64_t bytes;
    std::uint64_t offset;  ///< from the start of the file
    bool written;
  };
  void begin(const std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata);

  std::optional<OutputFile> own_;
  OutputFile& file_;
  std::map<std::string, Slot> slots_;
};

}  // namespace periscope
