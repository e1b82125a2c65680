#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/config_reader.h"
#include "sim/checkpoint/memory_model.h"
#include "sim/checkpoint/safetensors_reader.h"

namespace periscope {

/// Contents of model.safetensors.index.json.
struct TensorIndex {
  std::map<std::string, std::string> weight_map;  ///< tensor -> file name without a folder
  std::optional<std::uint64_t> total_size;        ///< total bytes of all tensors
  std::vector<std::string> warnings;
};

/// Parses the index. Throws InputError: "malformed: PATH: …" for invalid JSON (see parse_strict_json), for a weight_map
/// that is missing, empty or has values other than strings, and for a file name that could lead out of the folder ('/',
/// '\', control characters, "." and ".."); "unsupported: …" for a file name that does not end in .safetensors.
[[nodiscard]] TensorIndex parse_tensor_index(std::span<const std::byte> text, const std::string& path);

/// Tensors of a folder, from model.safetensors, else from the files listed in model.safetensors.index.json.
class TensorFiles {
 public:
  /// Opens and validates all files. Throws InputError like SafetensorsFile and parse_tensor_index. Also throws
  /// InputError for a folder with neither file, a missing file, and a tensor in two files or not in the file that the
  /// index states. Symbolic links out of the folder are rejected, except to blobs of the model's download cache.
  explicit TensorFiles(const std::string& folder);
  /// For the tensors of a model in memory, which must outlive this object.
  explicit TensorFiles(const MemoryModel& model);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// The files in the order of their names.
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Returns the names of all tensors in alphabetical order.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(const std::string& name) const { return file_indices_.contains(name); }

  /// Other names of stored tensors from the files' metadata: {name, stored name}, as written by
  /// safetensors.torch.save_model for tensors that share memory.
  [[nodiscard]] std::map<std::string, std::string> aliases() const;
  [[nodiscard]] StoredCounts counts() const;

  /// Returns type and shape. Throws InputError with folder, tensor and the nearest name if there is no such tensor.
  [[nodiscard]] const SafetensorsView& find(const std::string& name) const;

  /// Returns the path of the file with this tensor. Throws like find.
  [[nodiscard]] const std::string& file_of(const std::string& name) const;
  /// Reads elements first … first + out.size() - 1, row-major; conversions and errors as in SafetensorsFile::read.
  template <class T>
  void read(const std::string& name, std::uint64_t first, std::span<T> out) const {
    file_with(name).read(name, first, out);
  }

  /// Reads the whole tensor.
  [[nodiscard]] std::vector<double> values(const std::string& name) const;
  /// Warnings about tensors missing from the index (they can be read) and a wrong total_size.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  [[nodiscard]] const SafetensorsFile& file_with(const std::string& name) const;
  void open_shards(const std::string& index);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_indices_;  ///< name -> index into files_
  std::vector<std::string> warnings_;
};

}  // namespace periscope
