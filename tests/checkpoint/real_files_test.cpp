#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/checkpoint/safetensors_reader.h"
#include "sim/checkpoint/tensor_files.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

namespace fs = std::filesystem;

/// All .safetensors files beside the project, in ../shared; none if they are not there.
std::vector<std::string> real_files() {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(SHARED_FOLDER, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") files.push_back(entry->path().string());
  }
  return files;
}

template <typename T>
bool same_numbers(const std::string& raw, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T number;
    std::memcpy(&number, raw.data() + i * sizeof(T), sizeof(T));
    if (static_cast<double>(number) != values[i]) return false;
  }
  return raw.size() == values.size() * sizeof(T);
}

TEST_CASE("files of others have the tensors that a plain JSON parser finds in them") {
  const std::vector<std::string> paths = real_files();
  if (paths.empty()) {
    MESSAGE("skipped: there are no files in " SHARED_FOLDER);
    return;
  }
  for (const std::string& path : paths) {
    CAPTURE(path);
    const std::string bytes = bytes_of_file(path);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
    header.erase("__metadata__");
    const SafetensorsFile file(path);
    CHECK(file.tensors().size() == header.size());
    for (const auto& item : header.items()) {
      CAPTURE(item.key());
      const SafetensorsView& view = file.find(item.key());
      CHECK(name_of(view.type) == item.value()["dtype"]);
      CHECK(nlohmann::json(view.shape) == item.value()["shape"]);
      const std::size_t begin = item.value()["data_offsets"][0];
      const std::size_t end = item.value()["data_offsets"][1];
      const std::string raw = bytes.substr(8 + length + begin, end - begin);
      const std::vector<double> values = file.values(item.key());
      CHECK(values.size() == count_of(view));
      if (view.type == SafetensorsType::f64) CHECK(same_numbers<double>(raw, values));
      if (view.type == SafetensorsType::f32) CHECK(same_numbers<float>(raw, values));
      if (view.type == SafetensorsType::i64) CHECK(same_numbers<std::int64_t>(raw, values));
    }
    if (fs::path(path).filename() == "model.safetensors") {
      CHECK(TensorFiles(fs::path(path).parent_path().string()).names().size() == header.size());
    }
  }
}

}  // namespace
}  // namespace periscope::testing
