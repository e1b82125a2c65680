#include "sim/checkpoint/file_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace periscope {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view lfs_pointer = "version https://git-lfs.github.com/spec/";
/// Signatures of other file formats, with descriptions.
constexpr std::pair<std::string_view, std::string_view> other_formats[] = {
    {"PK\x03\x04"sv, "a zip archive, such as a PyTorch checkpoint"},
    {"\x80\x02"sv, "a pickle"},
    {"\x80\x03"sv, "a pickle"},
    {"\x80\x04"sv, "a pickle"},
    {"\x80\x05"sv, "a pickle"},
    {"GGUF"sv, "a GGUF file"},
    {"ggml"sv, "a GGML file"},
    {"\x89HDF\r\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a NumPy file"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"<!DOCTYPE"sv, "a web page"},
    {"<!doctype"sv, "a web page"},
    {"<html"sv, "a web page"},
};

}  // namespace

InputError malformed(const std::string& path, const std::string& reason) {
  return InputError(fmt::format("malformed: {}: {}", path, reason));
}

InputError unsupported(const std::string& path, const std::string& reason) {
  return InputError(fmt::format("unsupported: {}: {}", path, reason));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t max_length = 120;
  std::string line = "\"";
  for (const char c : text.substr(0, max_length)) {
    if (c == '"' || c == '\\') line += '\\';
    if (c >= ' ' && c <= '~') {
      line += c;
    } else {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  line += '"';
  if (text.size() > max_length) line += fmt::format(" … ({} bytes)", text.size());
  return line;
}

std::string nearest_name(const std::string& name, std::vector<std::string> names) {
  constexpr std::size_t max_length = 200;  // the cost of a comparison is the product of the two lengths
  constexpr std::size_t max_names = 50'000;
  std::erase_if(names, [](const std::string& other) { return other.size() > max_length; });
  names.resize(std::min(names.size(), max_names));
  return names.empty() ? "" : "; nearest is " + in_quotes(nearest(name, names));
}

InputError no_such_tensor(const std::string& where, const std::string& name, std::vector<std::string> names) {
  const std::size_t all = names.size();
  return InputError(
      fmt::format("{}: no tensor {} among {}{}", where, in_quotes(name), all, nearest_name(name, std::move(names))));
}

void reject_other_formats(std::span<const std::byte> file, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(lfs_pointer)) {
    throw malformed(path, "this is a Git LFS pointer, not the file: run git lfs pull");
  }
  for (const auto& [beginning, name] : other_formats) {
    if (!text.starts_with(beginning)) continue;
    throw unsupported(path, fmt::format("this is {}; only safetensors files are supported", name));
  }
}

}  // namespace periscope
