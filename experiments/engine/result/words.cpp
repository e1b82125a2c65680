#include "experiments/engine/result/words.h"

#include <algorithm>

namespace periscope::dataset {

std::vector<std::string> words_of(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace periscope::dataset
