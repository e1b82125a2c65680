#include "experiments/command/whole_number.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/spec/printable.h"

namespace periscope {

CLI::Validator positive_up_to(int most) {
  return {[most](const std::string& word) {
            int value = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            const bool holds = error == std::errc() && end == word.data() + word.size() && value >= 1 && value <= most;
            return holds ? "" : fmt::format("{}: expected a whole number from 1 to {}", shortened(word), most);
          },
          fmt::format("1 to {}", most)};
}

}  // namespace periscope
