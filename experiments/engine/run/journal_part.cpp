#include "experiments/engine/run/journal_part.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "experiments/engine/run/cell_journal.h"
#include "experiments/engine/settings/json_text.h"
#include "sim/base/error.h"
#include "sim/checkpoint/file_error.h"

namespace periscope::stacks {

void JournalPart::refuse(const std::string& expected) const {
  constexpr std::size_t longest = 40;
  std::string found = json_.is_structured()
                          ? (json_.is_object() ? "an object" : fmt::format("a list of {}", json_.size()))
                          : config::json_text(json_);
  if (found.size() > longest) found = fmt::format("{} characters", found.size());
  throw InputError(
      fmt::format("{}: found {}, expected {}; without the file the run begins anew", where_, found, expected));
}

JournalPart JournalPart::at(std::string_view key) const {
  const auto it = json_.is_object() ? json_.find(std::string(key)) : json_.end();
  if (it == json_.end()) refuse(fmt::format("an object with {}", in_quotes(key)));
  return {*it, fmt::format("{}, {}", where_, key)};
}

JournalPart JournalPart::at(std::size_t index) const {
  if (!json_.is_array() || index >= json_.size()) refuse(fmt::format("a list of {} or more", index + 1));
  return {json_[index], fmt::format("{}[{}]", where_, index)};
}

std::vector<JournalPart> JournalPart::entries() const {
  if (!json_.is_array()) refuse("a list");
  std::vector<JournalPart> all;
  for (std::size_t i = 0; i < json_.size(); ++i) all.push_back(at(i));
  return all;
}

std::vector<JournalPart> JournalPart::entries(std::size_t count) const {
  if (!json_.is_array() || json_.size() != count) refuse(fmt::format("a list of {}", count));
  return entries();
}

int JournalPart::whole(int least, int most) const {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  if (!json_.is_number_integer()) refuse(expected);
  if (json_.is_number_unsigned() && json_.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) refuse(expected);
  const auto value = json_.get<std::int64_t>();
  if (value < least || value > most) refuse(expected);
  return static_cast<int>(value);
}

double JournalPart::number() const {
  if (json_.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!json_.is_number()) refuse("a number");
  return json_.get<double>();
}

bool JournalPart::flag() const {
  if (!json_.is_boolean()) refuse("true or false");
  return json_.get<bool>();
}

std::string JournalPart::text() const {
  if (!json_.is_string()) refuse("text");
  return json_.get<std::string>();
}

std::vector<double> JournalPart::values() const {
  const std::string bits = text();
  try {
    return values_of(bits);
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("{}: {}; without the file the run begins anew", where_, error.what()));
  }
}

std::vector<double> JournalPart::values(std::size_t count) const {
  std::vector<double> all = values();
  if (all.size() != count) refuse(fmt::format("{} numbers, not {}", count, all.size()));
  return all;
}

}  // namespace periscope::stacks
