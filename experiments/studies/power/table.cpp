#include <fmt/format.h>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/power/power.h"

namespace periscope::power {
namespace {

/// "rejected", or what a theory that is not rejected got instead.
std::string outcome(const PowerRow& row) {
  if (row.rejected()) return row.is_true ? "REJECTED" : "rejected";
  const std::string_view words = judge::name_of(row.clearest().verdict);
  return row.is_true ? std::string(words) : fmt::format("PASSES ({})", words);
}

}  // namespace

std::string table(const PowerResult& result) {
  dataset::TextTable table({"theory", "configuration", "verdict", ">excess / limit", "clearest stack and cell"});
  int wrong = 0;
  int rejected = 0;
  for (const PowerRow& row : result.rows) {
    const Confrontation& c = row.clearest();
    table.add({row.theory, row.config, outcome(row), fmt::format("{:.1f} / {:.1f}", c.excess, c.critical), c.by});
    if (row.is_true) continue;
    ++wrong;
    rejected += row.rejected() ? 1 : 0;
  }
  return table.text() +
         fmt::format(
             "{} of {} wrong theories are rejected. A theory is told to one stack at a time; the familywise "
             "error is {:g} over the whole run.\n",
             rejected, wrong, result.familywise_error);
}

}  // namespace periscope::power
