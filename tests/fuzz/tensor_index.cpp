// Parses arbitrary bytes as model.safetensors.index.json. Parsing must throw InputError, or every file name must stay
// within the folder. Any other outcome is a crash that libFuzzer reports.
#include <cstdlib>

#include "sim/base/error.h"
#include "sim/checkpoint/tensor_files.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const periscope::TensorIndex index =
        periscope::parse_tensor_index({reinterpret_cast<const std::byte*>(data), size}, "index");
    if (index.weight_map.empty()) std::abort();
    for (const auto& [tensor, file] : index.weight_map) {
      for (const char c : file)
        if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ') std::abort();
      if (file.size() <= 12 && file != ".safetensors") std::abort();
    }
  } catch (const periscope::InputError&) {
  }
  return 0;
}
