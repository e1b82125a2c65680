#include "tests/checkpoint/edited_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/checkpoint/safetensors_reader.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "sim/checkpoint/strict_json.h"

namespace periscope::testing {

std::string fixture(const std::string& name) { return std::string(FIXTURES) + "/" + name; }

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

EditedCheckpoint::EditedCheckpoint(const std::string& name) : config(read_strict_json(fixture(name) + "/config.json")) {
  const SafetensorsFile file(fixture(name) + "/model.safetensors");
  for (const auto& [tensor, view] : file.tensors()) tensors[tensor] = {view.shape, file.values(tensor)};
}

void EditedCheckpoint::add(const std::string& tensor, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t length : shape) count *= static_cast<std::size_t>(length);
  tensors[tensor] = {std::move(shape), std::vector<double>(count, 1.0)};
}

void EditedCheckpoint::rename(const std::string& from, const std::string& to) {
  auto node = tensors.extract(from);
  node.key() = to;
  tensors.insert(std::move(node));
}

void EditedCheckpoint::rename_prefix(const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  for (const auto& [tensor, contents] : tensors)
    if (tensor.starts_with(from)) names.push_back(tensor);
  for (const std::string& tensor : names) rename(tensor, to + tensor.substr(from.size()));
}

std::string EditedCheckpoint::write() {
  std::ofstream(folder_.path("config.json")) << config.dump(1);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [tensor, contents] : tensors) {
    entries.push_back({tensor, tensor == integer_tensor ? SafetensorsType::i64 : SafetensorsType::f64, contents.shape});
  }
  SafetensorsWriter writer(folder_.path("model.safetensors"), entries, metadata);
  for (const auto& [tensor, contents] : tensors) {
    if (tensor == integer_tensor) {
      writer.put(tensor, std::vector<std::int64_t>(contents.values.size(), 1));
    } else {
      writer.put(tensor, contents.values);
    }
  }
  writer.close();
  return folder_.path();
}

}  // namespace periscope::testing
