// Fuzz target: the bytes of a safetensors file are rejected with InputError, or their tensors are readable and cover
// every data byte exactly once.
#include <cstdlib>
#include <vector>

#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_view.h"

namespace periscope {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_cover(const SafetensorsContents& contents, std::span<const std::byte> file) {
  std::uint64_t sum = 0;
  std::vector<bool> taken(file.size());
  for (const auto& [name, view] : contents.tensors) {
    sum += view.bytes.size();
    require(view.bytes.size() * 8 == count_of(view) * static_cast<std::uint64_t>(bits_of(view.type)));
    if (view.bytes.empty()) continue;
    require(view.bytes.data() >= file.data() + 8 && view.bytes.data() + view.bytes.size() <= file.data() + file.size());
    for (std::size_t i = 0; i < view.bytes.size(); ++i) {
      const auto at = static_cast<std::size_t>(view.bytes.data() - file.data()) + i;
      require(!taken[at]);
      taken[at] = true;
    }
  }
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8; ++i) header |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  require(8 + header + sum == file.size());
}

template <typename T, typename Read>
void read_all(const SafetensorsView& view, bool expected, Read read) {
  std::vector<T> values(count_of(view));
  try {
    read(view, "file", "tensor", 0, std::span<T>(values));
    require(expected);
  } catch (const InputError&) {
  }
}

void run(std::span<const std::byte> file) {
  SafetensorsContents contents;
  try {
    contents = parse_safetensors(file, "file");
  } catch (const InputError&) {
    return;
  }
  check_cover(contents, file);
  const auto read = [](auto&&... arguments) { read_values(arguments...); };
  for (const auto& [name, view] : contents.tensors) {
    read_all<double>(view, view.type <= SafetensorsType::boolean, read);
    read_all<float>(view, view.type <= SafetensorsType::boolean, read);
  }
}

}  // namespace
}  // namespace periscope

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  periscope::run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
