#include "sim/checkpoint/tokenizer.h"

namespace periscope {

std::vector<int> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string ByteTokenizer::decode(std::span<const int> ids) const {
  std::string text;
  for (const int id : ids) text += static_cast<char>(id);
  return text;
}

}  // namespace periscope
