#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace periscope::testing {

/// A number as 8 bytes, little-endian.
[[nodiscard]] std::string length_bytes(std::uint64_t length);

/// A safetensors file from a header's text and the data.
[[nodiscard]] std::string safetensors_bytes(std::string_view header, std::string_view data = {});

[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view text);

/// A file made by hand, what is (or might be thought to be) wrong with it, and words that the rejection must have.
struct MadeFile {
  std::string name;
  std::string bytes;
  std::string expected;  ///< part of the message; empty for files that must be accepted
};

/// Files that parse_safetensors must refuse, each wrong in one way.
[[nodiscard]] std::vector<MadeFile> bad_safetensors();

/// Files that look odd and are valid.
[[nodiscard]] std::vector<MadeFile> odd_safetensors();

/// Texts that parse_tensor_index must refuse.
[[nodiscard]] std::vector<MadeFile> bad_indices();

/// Texts that it must accept.
[[nodiscard]] std::vector<MadeFile> odd_indices();

}  // namespace periscope::testing
