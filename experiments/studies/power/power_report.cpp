#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/core/config/provenance.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/power/power.h"

namespace periscope::power {
namespace {

using Json = nlohmann::ordered_json;

/// "rejected", or what a theory that is not rejected got instead.
std::string outcome(const PowerRow& row) {
  if (row.rejected()) return row.is_true ? "REJECTED" : "rejected";
  const std::string_view words = name_of(row.clearest().verdict);
  return row.is_true ? std::string(words) : fmt::format("PASSES ({})", words);
}

}  // namespace

std::string table(const PowerResult& result) {
  TextTable table({"theory", "configuration", "verdict", ">excess / limit", "clearest stack and cell"});
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

const Schema& schema() {
  static const Schema schema = [] {
    const std::string row = "rows/[row]/";
    const std::string stack = row + "stacks/[stack]/";
    const std::string of_stack = "row stack";
    const std::string clearest = "JSON has all stacks";
    const std::string listed = "what was asked for: the file that `list` names";
    return Schema(
        "power", 1, {{"row"}, {"stack"}},
        {{"theory", "row", "", "what theory was told; true: the truth", row + "theory"},
         {"theory_is_true", "row", "1", "1 for the right theory", row + "true"},
         {"told", "row", "", "the keys that it was told otherwise", "", "JSON has them as a list"},
         json_only("settings", row + "set", "the keys that it was told otherwise", "files: told"),
         {"configuration", "row", "", "configuration that it was held against", row + "config"},
         {"theory_rejected", "row", "1", "1 if a stack rejects the theory", row + "rejected"},
         {"by", "row", "", "worst cell or contrast of the stack that says it most clearly", row + "by"},
         {"margin", "row", "1", "its excess over its limit", row + "margin"},
         {"power_verdict", "row", "", "of that stack", "", clearest},
         {"clearest_placement", "row", "", "normalization placement of that stack (T1)", "", clearest},
         {"clearest_input", "row", "", "what enters that stack", "", clearest},
         {"power_excess", "row", "1", "standard errors beyond the allowance, of the worst cell", "", clearest},
         {"power_critical", "row", "1", "where it is rejected", "", clearest},
         json_only("stacks", row + "stacks", "every stack of the configuration", "files have the dimension stack"),
         {"stack_placement", of_stack, "", "normalization placement (T1)", stack + "placement"},
         {"stack_input", of_stack, "", "what enters the stack", stack + "input"},
         {"stack_verdict", of_stack, "", "its verdict on the theory", stack + "verdict"},
         {"stack_reason", of_stack, "", "why it is inconclusive or was not given", stack + "reason"},
         {"stack_worst", of_stack, "", "its worst cell or contrast", stack + "worst"},
         {"stack_excess", of_stack, "1", "standard errors beyond the allowance", stack + "excess"},
         {"stack_critical", of_stack, "1", "where it is rejected", stack + "critical"},
         {"seconds", "row", "s", "that the predictions took", row + "seconds"},
         {"as_they_should_be", "", "1", "every wrong theory is rejected, and the right one is not",
          "as_they_should_be"},
         json_only("configs", "configs", "the configurations of the list", listed),
         {"list", "", "", "file of wrong theories", "", "JSON has its configurations"}});
  }();
  return schema;
}

Columns columns(const PowerResult& result) {
  Columns columns(schema(), result.provenance);
  for (std::size_t k = 0; k < result.rows.size(); ++k) {
    const PowerRow& r = result.rows[k];
    const Confrontation& c = r.clearest();
    const Columns::Row row = columns.at("row", k);
    row.put("theory", r.theory);
    row.put("theory_is_true", r.is_true);
    row.put("told", fmt::format("{}", fmt::join(r.settings, " ")));
    row.put("settings", r.settings);
    row.put("configuration", r.config);
    row.put("theory_rejected", r.rejected());
    row.put("by", c.by);
    row.put("margin", c.margin());
    row.put("power_verdict", name_of(c.verdict));
    row.put("clearest_placement", c.placement);
    row.put("clearest_input", c.input);
    if (!c.by.empty()) row.put("power_excess", c.excess);
    if (!c.by.empty()) row.put("power_critical", c.critical);
    row.put("stacks", Json::array());
    for (std::size_t s = 0; s < r.stacks.size(); ++s) {
      const Confrontation& one = r.stacks[s];
      const Columns::Row stack = row.at("stack", s);
      stack.put("stack_placement", one.placement);
      stack.put("stack_input", one.input);
      stack.put("stack_verdict", name_of(one.verdict));
      (one.reason.empty() ? stack.for_files() : stack).put("stack_reason", one.reason);
      if (one.by.empty()) continue;
      stack.put("stack_worst", one.by);
      stack.put("stack_excess", one.excess);
      stack.put("stack_critical", one.critical);
    }
    row.put("seconds", r.seconds);
  }
  columns.put("as_they_should_be", all_as_they_should_be(result));
  Json configs = Json::array();
  for (const PowerConfig& c : result.list.configs) {
    configs.push_back({{"name", c.name}, {"file", c.file}, {"set", c.settings}});
  }
  columns.put("configs", configs);
  columns.put("list", result.list.file);
  return columns;
}

}  // namespace periscope::power
