#include <filesystem>
#include <fstream>
#include <sstream>

#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint.h"
#include "tests/support/doctest.h"

/// Models in memory equal models with the same bytes in files.
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

TEST_CASE("memory model: every fixture has the same stack and tensors as its files") {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    CAPTURE(name);
    const Checkpoint files(entry.path());
    const Checkpoint memory(in_memory(name));
    CHECK(memory.folder() == name);
    CHECK(memory.family().name == files.family().name);
    CHECK(memory.model().layers == files.model().layers);
    CHECK(memory.model().width == files.model().width);
    CHECK(memory.model().placement.name == files.model().placement.name);
    CHECK(memory.files().names() == files.files().names());
    for (const auto& [tensor, uses] : memory.uses()) {
      CHECK(memory.files().values(tensor) == files.files().values(tensor));
    }
    ++seen;
  }
  CHECK(seen > 8);
}

TEST_CASE("memory model: errors name the model") {
  const auto model = in_memory("llama");
  model->tensors.tensors.erase(model->tensors.tensors.begin());
  try {
    const Checkpoint refused(model);
    FAIL("expected an error");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("llama") != std::string::npos);
  }
  model->config = "{";
  CHECK_THROWS_AS(Checkpoint{model}, InputError);
}

TEST_CASE("memory model: the hash depends on shapes and bytes") {
  const auto model = in_memory("llama");
  const auto hash = [](const std::shared_ptr<MemoryModel>& m) {
    const auto hashes = study::hashes_of_files(TensorFiles(*m));
    REQUIRE(hashes.size() == 1);
    CHECK(hashes.front().first == "tensors");
    return hashes.front().second;
  };
  const std::string before = hash(model);
  CHECK(hash(in_memory("llama")) == before);
  auto& [name, view] = *model->tensors.tensors.begin();
  std::vector<std::byte> changed(view.bytes.begin(), view.bytes.end());
  changed.front() ^= std::byte{1};
  view.bytes = changed;
  CHECK(hash(model) != before);
  const auto other = in_memory("llama");  // owns the bytes
  view.bytes = other->tensors.tensors.begin()->second.bytes;
  view.shape.insert(view.shape.begin(), 1);
  CHECK(hash(model) != before);
}

}  // namespace
}  // namespace periscope::testing
