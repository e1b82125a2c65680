#include "experiments/app/whole_number.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/base/printable.h"

namespace periscope::app {

CLI::Validator positive_up_to(std::int64_t most) { return whole_number(1, most); }

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](const std::string& word) {
            std::int64_t value = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            // CLI11 reads 010 as octal.
            const bool decimal = !word.starts_with("0") || word == "0";
            const bool holds =
                decimal && error == std::errc() && end == word.data() + word.size() && value >= least && value <= most;
            return holds ? "" : fmt::format("{}: expected a whole number from {} to {}", shortened(word), least, most);
          },
          fmt::format("{} to {}", least, most)};
}

}  // namespace periscope::app
