#include "sim/checkpoint/safetensors_reader.h"

#include <algorithm>
#include <utility>

#include "sim/base/mapped.h"
#include "sim/checkpoint/file_error.h"

namespace periscope {

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), contents_(parse_safetensors(file_.bytes(), path)) {}

SafetensorsFile::SafetensorsFile(const std::string& name, SafetensorsContents contents)
    : file_(MappedFile::of_memory(name, {})), contents_(std::move(contents)) {}

const SafetensorsView& SafetensorsFile::find(const std::string& name) const {
  const auto found = contents_.tensors.find(name);
  if (found != contents_.tensors.end()) return found->second;
  throw no_such_tensor(path(), name, mapped(contents_.tensors, [](const auto& item) { return item.first; }));
}

template <class T>
void SafetensorsFile::read(const std::string& name, std::uint64_t first, std::span<T> out) const {
  constexpr std::size_t piece_bytes = 1 << 20;
  const SafetensorsView& view = find(name);
  const auto bits = static_cast<std::size_t>(bits_of(view.type));
  std::size_t done = 0;
  do {
    const std::span<T> piece = out.subspan(done, std::min(piece_bytes * 8 / bits, out.size() - done));
    file_.check_unchanged();
    read_values(view, path(), name, first + done, piece);
    file_.release(view.bytes.subspan((first + done) * bits / 8, piece.size() * bits / 8));
    done += piece.size();
  } while (done < out.size());
}

template void SafetensorsFile::read(const std::string&, std::uint64_t, std::span<double>) const;
template void SafetensorsFile::read(const std::string&, std::uint64_t, std::span<float>) const;

std::vector<double> SafetensorsFile::values(const std::string& name) const {
  std::vector<double> values(count_of(find(name)));
  read(name, 0, std::span(values));
  return values;
}

}  // namespace periscope
