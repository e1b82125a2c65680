#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/tokenizer.h"

namespace periscope {

/// Tokenizer file of llama2.c, little-endian: i32 length of the longest piece; then for every id f32 score, i32 length,
/// and the bytes of the piece. Ids 0, 1, 2 are <unk>, begin and end of a sequence. The piece "<0xXX>" represents a byte
/// that has no other piece.
class Llama2cTokenizer final : public Tokenizer {
 public:
  static constexpr int begin_id = 1;
  static constexpr int end_id = 2;

  /// Parses a whole file of `vocab` tokens. Throws InputError ("malformed: PATH: …" with the token, found and expected
  /// value) if the file is too short or too long, a length is negative or exceeds the file or the stated maximum, or a
  /// score is not finite.
  Llama2cTokenizer(std::span<const std::byte> file, const std::string& path, int vocab);

  /// Returns begin_id, then a space (unless the text is empty), then the text's UTF-8 characters, or the bytes of
  /// characters without a piece. Adjacent tokens that form a piece are then merged: highest score first, then leftmost.
  [[nodiscard]] std::vector<int> encode(std::string_view text) const override;
  /// Concatenates the pieces; "<0xXX>" becomes a byte. Omits begin_id, end_id, and the space after a begin_id.
  [[nodiscard]] std::string decode(std::span<const int> ids) const override;
  [[nodiscard]] std::string piece(int id) const override;
  [[nodiscard]] int size() const override { return static_cast<int>(pieces_.size()); }

 private:
  struct Piece {
    std::string text;
    float score;
  };
  [[nodiscard]] int find(const std::string& text) const;  // −1 if no piece equals `text`
  void append(std::string_view character, std::vector<int>& ids) const;
  [[nodiscard]] std::vector<int> merged(std::vector<int> ids) const;

  std::string path_;
  std::vector<Piece> pieces_;
  std::map<std::string, int> ids_;  ///< piece -> id, the smallest for duplicate pieces
};

}  // namespace periscope
