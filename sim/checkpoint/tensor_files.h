#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/config_reader.h"
#include "sim/checkpoint/memory_model.h"
#include "sim/checkpoint/safetensors_reader.h"

namespace periscope {

/// The tensors of a checkpoint's folder: of model.safetensors or, if there is none, of the files that
/// model.safetensors.index.json names.
class TensorFiles {
 public:
  /// Opens and checks all files. Throws InputError for a folder without either file, whatever SafetensorsFile and
  /// parse_tensor_index refuse, a missing file, a symbolic link that leads out of the folder (but into the blobs of
  /// the same model's download cache), a mapped tensor that its file does not hold, and a name in two files.
  explicit TensorFiles(const std::string& folder);
  /// The tensors of a model in memory, which outlives this.
  explicit TensorFiles(const MemoryModel& model);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// Returns the files, in the order of their names.
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }

  /// Sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(const std::string& name) const { return holders_.contains(name); }

  /// Names in the files' metadata of tensors that shared memory with one that was stored: {name, stored name}, as
  /// safetensors.torch.save_model writes them.
  [[nodiscard]] std::map<std::string, std::string> aliases() const;

  [[nodiscard]] StoredCounts counts() const;

  /// Type and shape. Throws InputError naming folder, tensor and the nearest name.
  [[nodiscard]] const SafetensorsView& find(const std::string& name) const;

  /// The path of the file that holds the tensor. Throws as find does.
  [[nodiscard]] const std::string& file_of(const std::string& name) const;

  /// Elements first … first + out.size() - 1, row-major; conversions and errors as in SafetensorsFile::read.
  template <class T>
  void read(const std::string& name, std::uint64_t first, std::span<T> out) const {
    holder(name).read(name, first, out);
  }

  /// The whole tensor.
  [[nodiscard]] std::vector<double> values(const std::string& name) const;

  /// Returns what is odd but harmless: a tensor that the index does not map (it can be read all the same), and an index
  /// whose total_size is not the sum.
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
