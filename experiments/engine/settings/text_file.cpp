#include "experiments/engine/settings/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/files/mapped_file.h"

namespace periscope::config {

TextFile read_text_file(const std::string& path, const std::string& name) {
  constexpr std::size_t most = 64U << 20U;
  try {
    const MappedFile file(path);
    const auto* bytes = reinterpret_cast<const char*>(file.bytes().data());
    TextFile read{.head = std::string(bytes, std::min(file.bytes().size(), most)),
                  .size = file.bytes().size(),
                  .sha256 = sha256_of(file)};
    file.check_unchanged();  // between the bytes and their hash
    return read;
  } catch (const InputError& error) {
    if (name.empty()) throw;
    throw InputError(fmt::format("{} {}", name, error.what()));
  }
}

const TextFile& text_of(const InputSpec& input) {
  if (input.text == nullptr) throw std::logic_error("input.path: the text was not read");
  return *input.text;
}

}  // namespace periscope::config
