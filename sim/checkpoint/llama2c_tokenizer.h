#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/tokenizer.h"

namespace periscope {

/// The tokeniser file of llama2.c, little-endian: i32 length of the longest piece; then for every id f32 score,
/// i32 length, the piece's bytes. Ids 0, 1, 2 are <unk>, the beginning and the end of a sequence; a byte without a
/// piece of its own is the piece "<0xXX>".
class Llama2cTokenizer final : public Tokenizer {
 public:
  static constexpr int begin_id = 1;
  static constexpr int end_id = 2;

  /// Parses a whole file of `vocab` tokens. Throws InputError ("malformed: PATH: …", with the token, what was found and
  /// expected) for a file that is too short or too long, a length that is negative, beyond the file or above the stated
  /// longest, and a score that is not finite.
  Llama2cTokenizer(std::span<const std::byte> file, const std::string& path, int vocab);

  /// begin_id, a space before the text (unless it is empty), then the text's characters (UTF-8, up to 4 bytes each) or
  /// their bytes. Neighbours are then merged as long as a piece joins them: best score first, then leftmost.
  [[nodiscard]] std::vector<int> encode(std::string_view text) const override;
  /// Concatenates the pieces, "<0xXX>" as its byte, without begin_id and end_id and the space after a begin_id.
  [[nodiscard]] std::string decode(std::span<const int> ids) const override;
  [[nodiscard]] std::string piece(int id) const override;
  [[nodiscard]] int size() const override { return static_cast<int>(pieces_.size()); }

 private:
  struct Piece {
    std::string text;
    float score;
  };
  [[nodiscard]] int find(const std::string& text) const;  // −1: none
  void append(std::string_view character, std::vector<int>& ids) const;
  [[nodiscard]] std::vector<int> merged(std::vector<int> ids) const;

  std::string path_;
  std::vector<Piece> pieces_;
  std::map<std::string, int> ids_;  ///< of equal pieces the first
};

}  // namespace periscope
