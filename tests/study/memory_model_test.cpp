#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/checkpoint/checkpoint.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Returns the named fixture, with tensors mapped from its file.
std::shared_ptr<MemoryModel> in_memory(const std::string& name) {
  const std::string folder = std::string(FIXTURES) + "/" + name;
  const auto file = std::make_shared<SafetensorsFile>(folder + "/model.safetensors");
  auto model = std::make_shared<MemoryModel>();
  model->name = name;
  model->config = contents(folder + "/config.json");
  model->tensors = {file->tensors(), {}};
  model->owner = file;
  return model;
}

TEST_CASE("a model in memory has the same stack and tensors as its files, for every fixture") {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    CAPTURE(name);
    const Checkpoint files(entry.path());
    const Checkpoint memory(in_memory(name));
    CHECK(memory.folder() == name);
    CHECK(memory.family().name == files.family().name);
    CHECK(memory.model().placement.name == files.model().placement.name);
    CHECK(memory.files().names() == files.files().names());
    for (const auto& [tensor, uses] : memory.uses()) {
      CHECK(memory.files().values(tensor) == files.files().values(tensor));
    }
    ++seen;
  }
  CHECK(seen > 8);
}

}  // namespace
}  // namespace periscope::testing
