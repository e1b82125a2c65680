// Writes the hand-made files of tests/checkpoint as seed corpora of the fuzz targets.
// usage: fuzz_seeds FOLDER
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

constexpr std::size_t longest = 4096;  // longer files only slow the fuzzer down

void write(const std::filesystem::path& folder, const std::string& prefix, const std::vector<TestFile>& files) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].bytes.size() > longest) continue;
    std::ofstream file(folder / (prefix + std::to_string(i)), std::ios::binary);
    file << files[i].bytes;
    if (!file.flush()) throw std::runtime_error("cannot write to " + folder.string());
  }
}

}  // namespace
}  // namespace periscope::testing

int main(int argc, char** argv) {
  using namespace periscope::testing;
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  write(folder / "safetensors", "bad", bad_safetensors());
  write(folder / "safetensors", "odd", odd_safetensors());
  write(folder / "tensor_index", "bad", bad_indices());
  write(folder / "tensor_index", "odd", odd_indices());
  return 0;
}
