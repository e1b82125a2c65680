/// Compares every checkpoint under a folder with its expected.safetensors: reference_parity FOLDER.
/// Exit code 0 if all agree, 1 if not, 77 if the folder is missing.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tests/checkpoint/parity.h"

namespace {

using namespace periscope::testing;

/// Returns the error bound. Errors in f64 are about 1e-13; the margin allows for larger models.
double allowed(periscope::DType dtype) { return dtype == periscope::DType::f64 ? 1e-10 : 1e-5; }

bool agrees(const std::string& folder, const Target& target) {
  const std::vector<TensorError> errors = compare_with_expected(folder, target);
  const TensorError worst = worst_of(errors);
  const bool good = worst.error <= allowed(target.dtype);
  fmt::print("{:<24} {:<14} {:>4} tensors, worst {:.1e} {}{}\n", std::filesystem::path(folder).filename().string(),
             target.name(), errors.size(), worst.error, worst.name, good ? "" : "  TOO LARGE");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    fmt::print("skipped: no folder of reference checkpoints\n");
    return 77;
  }
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) folders.push_back(entry.path().string());
  }
  std::ranges::sort(folders);
  bool good = !folders.empty();
  for (const std::string& folder : folders) {
    for (const Target& target : targets_and_truth()) good = agrees(folder, target) && good;
  }
  return good ? 0 : 1;
}
