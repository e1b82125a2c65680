#include "sim/checkpoint/file_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/error.h"

namespace periscope {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view beginning;
  std::string_view name;
};

constexpr std::string_view lfs_pointer = "version https://git-lfs.github.com/spec/";
constexpr std::array other_formats{
    Format{"PK\x03\x04"sv, "a zip archive, as PyTorch writes its pickles"},
    Format{"\x80\x02"sv, "a pickle"},
    Format{"\x80\x03"sv, "a pickle"},
    Format{"\x80\x04"sv, "a pickle"},
    Format{"\x80\x05"sv, "a pickle"},
    Format{"GGUF"sv, "a GGUF file"},
    Format{"ggml"sv, "a GGML file"},
    Format{"\x89HDF\r\n"sv, "an HDF5 file"},
    Format{"\x93NUMPY"sv, "a NumPy file"},
    Format{"\x1f\x8b"sv, "a gzip archive"},
    Format{"<!DOCTYPE"sv, "a web page"},
    Format{"<!doctype"sv, "a web page"},
    Format{"<html"sv, "a web page"},
};

}  // namespace

InputError malformed(const std::string& path, const std::string& what) {
  return InputError(fmt::format("malformed: {}: {}", path, what));
}

InputError unsupported(const std::string& path, const std::string& what) {
  return InputError(fmt::format("unsupported: {}: {}", path, what));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 120;
  std::string line = "\"";
  for (const char c : text.substr(0, longest)) {
    if (c == '"' || c == '\\') line += '\\';
    if (c >= ' ' && c <= '~') {
      line += c;
    } else {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  line += '"';
  if (text.size() > longest) line += fmt::format(" … ({} bytes)", text.size());
  return line;
}

std::string nearest_name(const std::string& name, std::vector<std::string> names) {
  constexpr std::size_t longest = 200;  // comparing names takes the product of their lengths
  constexpr std::size_t most = 50'000;
  std::erase_if(names, [](const std::string& other) { return other.size() > longest; });
  names.resize(std::min(names.size(), most));
  return names.empty() ? "" : "; nearest is " + in_quotes(nearest(name, names));
}

InputError no_such_tensor(const std::string& where, const std::string& name, std::vector<std::string> names) {
  const std::size_t all = names.size();
  return InputError(
      fmt::format("{}: no tensor {} among {}{}", where, in_quotes(name), all, nearest_name(name, std::move(names))));
}

void refuse_other_formats(std::span<const std::byte> file, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(lfs_pointer)) {
    throw malformed(path, "this is a Git LFS pointer, not the file: run git lfs pull");
  }
  for (const Format& format : other_formats) {
    if (text.starts_with(format.beginning)) {
      throw unsupported(path, fmt::format("this is {}; only safetensors files are read", format.name));
    }
  }
}

}  // namespace periscope
