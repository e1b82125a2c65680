#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/interface.h"

namespace periscope {

/// Converts text to token ids and back.
class Tokenizer : public Interface {
 public:
  /// Encodes any byte string as the start of a sequence. Throws InputError for a byte without a token.
  [[nodiscard]] virtual std::vector<int> encode(std::string_view text) const = 0;
  [[nodiscard]] virtual std::string decode(std::span<const int> ids) const = 0;
  /// Returns the text of a single token.
  [[nodiscard]] virtual std::string piece(int id) const = 0;
  [[nodiscard]] virtual int size() const = 0;
};

/// Tokenizer whose ids are bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::vector<int> encode(std::string_view text) const override {
    std::vector<int> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  [[nodiscard]] std::string decode(std::span<const int> ids) const override {
    std::string text;
    for (const int id : ids) text += piece(id);
    return text;
  }
  [[nodiscard]] std::string piece(int id) const override { return std::string(1, static_cast<char>(id)); }
  [[nodiscard]] int size() const override { return 256; }
};

}  // namespace periscope
