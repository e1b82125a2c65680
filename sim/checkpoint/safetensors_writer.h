#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_type.h"

namespace periscope {

/// A tensor that a file is to hold, row-major.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type = SafetensorsType::f64;
  std::vector<std::int64_t> shape;
};

/// Writes a safetensors file whose tensors come in any order, one at a time, so that memory holds one of them:
/// the header's length in 8 bytes, the header in JSON padded with spaces to a multiple of 8, then the tensors in
/// the order of `entries` without gaps, little-endian, each at a multiple of 8 bytes.
class SafetensorsWriter {
 public:
  /// Writes the header. Throws std::logic_error for a name that comes twice.
  SafetensorsWriter(std::string path, const std::vector<SafetensorsEntry>& entries);

  /// Writes one tensor. Throws std::logic_error for a name, type or size that the header does not have, and
  /// for a tensor that was written already.
  void put(const std::string& name, std::span<const double> values);
  void put(const std::string& name, std::span<const std::int64_t> values);

  /// Ends the file. Throws std::logic_error if a tensor is missing, Error (run-time failure) naming the path
  /// if writing failed.
  void close();

 private:
  struct Slot {
    SafetensorsType type;
    std::uint64_t count;
    std::uint64_t offset;  ///< from the beginning of the file
    bool written;
  };
  void put_bytes(const std::string& name, SafetensorsType type, std::uint64_t count, const void* bytes);

  std::string path_;
  std::ofstream file_;
  std::map<std::string, Slot> slots_;
};

}  // namespace periscope
