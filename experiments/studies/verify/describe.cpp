#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/verify/report.h"

namespace periscope::verify {
namespace {

/// "name [..]", one line per row.
std::string matrix(std::string_view name, std::span<const double> values, std::size_t cols, int most) {
  if (static_cast<int>(values.size()) > most) return fmt::format("    {:<10} {} numbers\n", name, values.size());
  std::string text;
  for (std::size_t row = 0; row < values.size(); row += cols) {
    text += fmt::format("    {:<10} [{:.6g}]\n", row == 0 ? name : "", fmt::join(values.subspan(row, cols), ", "));
  }
  return text;
}

}  // namespace

std::string describe(const BoundCase& c, int most) {
  const Evaluation e = evaluate(c);
  const auto units = static_cast<std::size_t>(c.units());
  std::string text = fmt::format(
      "    {}, {}, eps {:g}, {}, alpha {:.6g}, beta {:.6g}: D = {}, hidden units {}, labels {}\n", placement_of(c),
      facts_of(c.norm()).title, c.number("norm_eps"), mlp_kind_names[static_cast<std::size_t>(c.mlp())],
      c.number("alpha"), c.number("beta"), c.width(), units, fmt::join(c.labels(), " "));
  for (const ParameterKind& kind : parameter_kinds()) {
    if (kind.shown.empty() || !c.has(kind.name)) continue;
    const Parameter& p = c.parameters.find(kind.name)->second;
    text += matrix(kind.shown, p.values, kind.cols == Dimension::one ? p.values.size() : p.cols, most);
  }
  text += matrix("h", e.hidden, units, most);
  text += matrix(c.has("down_bias") ? "a=W2 h+b2" : "a = W2 h", e.module, c.size(Dimension::feature), most);
  text += matrix("p", e.probabilities, static_cast<std::size_t>(c.classes()), most);
  return text + matrix("dL/dW2", e.gradient, units, most);
}

std::string describe(const Counterexample& counterexample, double scale) {
  const Statement& s = statements()[counterexample.statement];
  const StatementOutcome o = counterexample.outcome();
  const bool scaled = s.kind == StatementKind::bound && scale != 1.0;
  return fmt::format("  {} [{}], found as {}, made simpler:\n{}    measured  {:.9g}\n    bound     {:.9g}{}\n", s.id,
                     s.text, counterexample.origin, describe(counterexample.found), o.measured, o.bound,
                     scaled ? fmt::format(", times {:g}: {:.9g}", scale, scale * o.bound) : std::string()) +
         fmt::format("    ratio     {:.9g}\n", o.ratio());
}

std::string describe(const Replay& replay) {
  dataset::TextTable table({"statement", ">measured", ">bound", ">ratio", ""});
  for (std::size_t k = 0; k < replay.checked.size(); ++k) {
    const Statement& s = statements()[replay.checked[k]];
    const StatementOutcome& o = replay.outcomes[k];
    const bool decided = s.kind == StatementKind::identity || o.is_trivial() || o.is_resolved();
    const char* word = replay.is_broken(k)
                           ? (s.kind == StatementKind::refutable ? "broken: claim is false" : "VIOLATED")
                       : decided ? "holds"
                                 : "holds; rounding is as large as the bound";
    table.add({std::string(s.id), fmt::format("{:.8g}", o.measured), fmt::format("{:.8g}", o.bound),
               std::isnan(o.ratio()) ? "-" : fmt::format("{:.8g}", o.ratio()), word});
  }
  const std::string text = fmt::format("case {}\n{}{}", replay.file, describe(replay.found), table.text(2));
  if (replay.scale == 1.0) return text;
  return text + fmt::format("  bounds that should hold were multiplied by {:g}\n", replay.scale);
}

nlohmann::ordered_json replay_json(const Replay& replay) {
  nlohmann::ordered_json json{{"file", replay.file}, {"scale", replay.scale}};
  for (std::size_t k = 0; k < replay.checked.size(); ++k) {
    const StatementOutcome& o = replay.outcomes[k];
    json["statements"].push_back({{"id", statements()[replay.checked[k]].id},
                                  {"measured", o.measured},
                                  {"bound", o.bound},
                                  {"rounding", o.rounding},
                                  {"ratio", o.ratio()},
                                  {"broken", replay.is_broken(k)}});
  }
  json["case"] = case_json(replay.found);
  return json;
}

}  // namespace periscope::verify
