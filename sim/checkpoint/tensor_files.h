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

/// model.safetensors.index.json.
struct TensorIndex {
  std::map<std::string, std::string> weight_map;  ///< tensor -> file name, without any folder
  std::optional<std::uint64_t> total_size;        ///< bytes of all tensors
  std::vector<std::string> warnings;
};

/// Parses the index. Throws InputError: "malformed: PATH: …" for invalid JSON (see parse_strict_json), a weight_map
/// that is missing, empty or has values other than strings, and a file name that could lead out of the folder ('/',
/// '\', control characters, "." and ".."); "unsupported: …" for a name that does not end in .safetensors.
[[nodiscard]] TensorIndex parse_tensor_index(std::span<const std::byte> text, const std::string& path);

/// The tensors of a checkpoint's folder: of model.safetensors or, without it, of the files that
/// model.safetensors.index.json names.
class TensorFiles {
 public:
  /// Opens and checks all files. Throws InputError as SafetensorsFile and parse_tensor_index do, and for a folder with
  /// neither file, a missing file, a symbolic link that leads out of the folder (blobs of the same model's download
  /// cache excepted), a mapped tensor that its file does not hold, and a name in two files.
  explicit TensorFiles(const std::string& folder);
  /// The tensors of a model in memory, which outlives this.
  explicit TensorFiles(const MemoryModel& model);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// Sorted by name.
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(const std::string& name) const { return holders_.contains(name); }

  /// Other names of stored tensors in the files' metadata: {name, stored name}, as safetensors.torch.save_model writes
  /// for tensors that share memory.
  [[nodiscard]] std::map<std::string, std::string> aliases() const;
  [[nodiscard]] StoredCounts counts() const;

  /// Type and shape. Throws InputError naming folder, tensor and the nearest name.
  [[nodiscard]] const SafetensorsView& find(const std::string& name) const;

  /// The path of the file that holds the tensor. Throws as find.
  [[nodiscard]] const std::string& file_of(const std::string& name) const;
  /// Elements first … first + out.size() - 1, row-major; conversions and errors as in SafetensorsFile::read.
  template <class T>
  void read(const std::string& name, std::uint64_t first, std::span<T> out) const {
    holder(name).read(name, first, out);
  }

  /// The whole tensor.
  [[nodiscard]] std::vector<double> values(const std::string& name) const;
  /// Tensors that the index does not map (they can be read), and an index whose total_size is not the sum.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  [[nodiscard]] const SafetensorsFile& holder(const std::string& name) const;
  void open_shards(const std::string& index);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> holders_;  ///< name -> index into files_
  std::vector<std::string> warnings_;
};

}  // namespace periscope
