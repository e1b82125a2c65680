#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "experiments/common/provenance.h"
#include "experiments/confront/power.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

Json confrontation_json(const Confrontation& c) {
  Json json{{"placement", c.placement}, {"input", c.input}, {"verdict", name_of(c.verdict)}};
  if (!c.reason.empty()) json["reason"] = c.reason;
  if (c.by.empty()) return json;
  json["worst"] = c.by;
  json["excess"] = c.excess;
  json["critical"] = c.critical;
  return json;
}

/// "rejected", or what a theory that is not rejected got instead.
std::string outcome(const PowerRow& row) {
  if (row.rejected()) return row.is_true ? "REJECTED" : "rejected";
  const std::string_view words = name_of(row.clearest().verdict);
  return row.is_true ? std::string(words) : fmt::format("PASSES ({})", words);
}

}  // namespace

std::string power_table(const PowerResult& result) {
  std::string table = fmt::format("{:<22} {:<16} {:<22} {:>8} / {:<5} {}\n", "theory", "configuration", "verdict",
                                  "excess", "limit", "clearest stack and cell");
  int wrong = 0;
  int rejected = 0;
  for (const PowerRow& row : result.rows) {
    const Confrontation& c = row.clearest();
    table += fmt::format("{:<22} {:<16} {:<22} {:8.1f} / {:<5.1f} {}\n", row.theory, row.config, outcome(row), c.excess,
                         c.critical, c.by);
    if (row.is_true) continue;
    ++wrong;
    rejected += row.rejected() ? 1 : 0;
  }
  return table + fmt::format(
                     "{} of {} wrong theories are rejected. A theory is told to one stack at a time; the familywise "
                     "error is {:g} over the whole run.\n",
                     rejected, wrong, result.familywise_error);
}

Json power_json(const PowerResult& result) {
  Json rows = Json::array();
  for (const PowerRow& row : result.rows) {
    const Confrontation& c = row.clearest();
    Json stacks = Json::array();
    for (const Confrontation& stack : row.stacks) stacks.push_back(confrontation_json(stack));
    rows.push_back({{"theory", row.theory},
                    {"true", row.is_true},
                    {"set", row.settings},
                    {"config", row.config},
                    {"rejected", row.rejected()},
                    {"by", c.by},
                    {"margin", c.margin()},
                    {"stacks", stacks},
                    {"seconds", row.seconds}});
  }
  Json configs = Json::array();
  for (const PowerConfig& c : result.list.configs) {
    configs.push_back({{"name", c.name}, {"file", c.file}, {"set", c.settings}});
  }
  return {{"rows", rows},
          {"as_they_should_be", all_as_they_should_be(result)},
          {"configs", configs},
          {"provenance", result.provenance}};
}

NetcdfDataset power_dataset(const PowerResult& result) {
  using Words = std::vector<std::string>;
  using Values = std::vector<double>;
  Words theory;
  Words config;
  Words told;
  Words verdict;
  Words by;
  Words placement;
  Words input;
  Values rejected;
  Values is_true;
  Values excess;
  Values critical;
  for (const PowerRow& row : result.rows) {
    const Confrontation& c = row.clearest();
    theory.push_back(row.theory);
    config.push_back(row.config);
    told.push_back(fmt::format("{}", fmt::join(row.settings, " ")));
    verdict.emplace_back(name_of(c.verdict));
    by.push_back(c.by);
    placement.push_back(c.placement);
    input.push_back(c.input);
    rejected.push_back(row.rejected() ? 1.0 : 0.0);
    is_true.push_back(row.is_true ? 1.0 : 0.0);
    excess.push_back(c.by.empty() ? std::numeric_limits<double>::quiet_NaN() : c.excess);
    critical.push_back(c.by.empty() ? std::numeric_limits<double>::quiet_NaN() : c.critical);
  }
  NetcdfDataset data;
  data.dimensions = {{"row", result.rows.size()}};
  data.attributes = result.provenance;
  data.attributes["list"] = result.list.file;
  const std::vector<std::string> row{"row"};
  data.variables = {
      {"theory", row, theory, "", "what theory was told; true: the truth"},
      {"configuration", row, config, "", "configuration that it was held against"},
      {"told", row, told, "", "the keys that it was told otherwise"},
      {"power_verdict", row, verdict, "", "of the stack that says it most clearly"},
      {"by", row, by, "", "its worst cell or contrast"},
      {"clearest_placement", row, placement, "", "normalization placement of that stack (T1)"},
      {"clearest_input", row, input, "", "what enters that stack"},
      {"theory_rejected", row, rejected, "1", "1 if a stack rejects the theory"},
      {"theory_is_true", row, is_true, "1", "1 for the right theory"},
      {"power_excess", row, excess, "1", "standard errors beyond the allowance, of the worst cell"},
      {"power_critical", row, critical, "1", "where it is rejected"},
  };
  return data;
}

}  // namespace periscope
