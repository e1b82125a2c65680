#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_view.h"
#include "sim/files/mapped_file.h"

namespace periscope {

/// A safetensors file, mapped into memory and validated (see parse_safetensors). Reads convert one piece at a time and
/// release its pages. Safe for concurrent reads.
class SafetensorsFile {
 public:
  /// Throws InputError if the file cannot be opened or is malformed, or has another known format (a pickle, …).
  explicit SafetensorsFile(const std::string& path);
  /// For tensors in memory, which must outlive this object; `name` replaces the path.
  SafetensorsFile(const std::string& name, SafetensorsContents contents);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] const MappedFile& file() const { return file_; }
  [[nodiscard]] const std::map<std::string, SafetensorsView>& tensors() const { return contents_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }

  /// Throws InputError with the file, the tensor and the nearest name if there is no such tensor.
  [[nodiscard]] const SafetensorsView& find(const std::string& name) const;

  /// Reads elements first … first + out.size() - 1, row-major; conversions and errors as in read_values. Also throws
  /// InputError if the file has changed since it was opened.
  template <class T>  // double or float
  void read(const std::string& name, std::uint64_t first, std::span<T> out) const;

  /// Reads the whole tensor.
  [[nodiscard]] std::vector<double> values(const std::string& name) const;

 private:
  MappedFile file_;
  SafetensorsContents contents_;
};

}  // namespace periscope
