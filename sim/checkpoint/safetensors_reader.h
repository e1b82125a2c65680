#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_view.h"
#include "sim/files/mapped_file.h"

namespace periscope {

/// A safetensors file, mapped into memory and checked (see parse_safetensors). Reading converts a piece at a time and
/// releases its pages. Several threads may read.
class SafetensorsFile {
 public:
  /// Throws InputError for a file that cannot be opened or is malformed; names other kinds (a Git LFS pointer, a
  /// pickle, …).
  explicit SafetensorsFile(const std::string& path);
  /// Tensors in memory, which outlives this, under the name of a file.
  SafetensorsFile(const std::string& name, SafetensorsContents contents);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] const MappedFile& file() const { return file_; }
  [[nodiscard]] const std::map<std::string, SafetensorsView>& tensors() const { return contents_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }

  /// Throws InputError naming file, tensor and the nearest name.
  [[nodiscard]] const SafetensorsView& find(const std::string& name) const;

  /// Elements first … first + out.size() - 1, row-major; conversions and errors as in read_values. Throws
  /// InputError also if the file has changed since it was opened.
  template <class T>  // double or float
  void read(const std::string& name, std::uint64_t first, std::span<T> out) const;

  /// The whole tensor.
  [[nodiscard]] std::vector<double> values(const std::string& name) const;

 private:
  MappedFile file_;
  SafetensorsContents contents_;
};

}  // namespace periscope
