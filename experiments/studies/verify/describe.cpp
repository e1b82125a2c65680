#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/verify/report.h"

namespace periscope::verify {
namespace {

using Json = nlohmann::ordered_json;

std::string list(std::span<const double> values) { return fmt::format("[{:.6g}]", fmt::join(values, ", ")); }

/// "name = [..]", one line per row for a matrix.
std::string matrix(const std::string& name, const std::vector<double>& values, int cols, int most) {
  if (values.empty()) return {};
  const auto n = static_cast<std::size_t>(cols);
  if (static_cast<int>(values.size()) > most) return fmt::format("    {:<10} {} numbers\n", name, values.size());
  std::string text;
  for (std::size_t row = 0; row < values.size(); row += n) {
    text += fmt::format("    {:<10} {}\n", row == 0 ? name : "", list(std::span(values).subspan(row, n)));
  }
  return text;
}

std::string norm(const std::string& name, const CaseNorm& n, int most) {
  const int d = static_cast<int>(n.gain.size());
  return matrix("gain " + name, n.gain, d, most) + matrix("bias " + name, n.bias, d, most);
}

Json counterexample_json(const Counterexample& c) {
  const StatementOutcome o = c.outcome();
  return {{"statement", statements()[c.statement].id},
          {"origin", c.origin},
          {"measured", o.measured},
          {"bound", o.bound},
          {"ratio", o.ratio()},
          {"case", case_json(c.shrunk)},
          {"found", case_json(c.found)}};
}

}  // namespace

std::string describe(const BoundCase& c, int most) {
  const ModelSpec& m = c.model;
  const Evaluation e = evaluate(c);
  const int units = c.model.mlp_width;
  std::string text = fmt::format(
      "    {}, {}, eps {:g}, {}{}{}: D = {}, {} hidden unit{}, {} token{}, label{} {}\n", placement_of(c),
      m.norm == NormKind::rms ? "RMSNorm" : "LayerNorm", m.norm_eps, mlp_kind_names[static_cast<std::size_t>(m.mlp)],
      m.final_norm ? ", final norm" : "", m.unembedding ? ", unembedding" : "", m.width, units, units == 1 ? "" : "s",
      c.tokens(), c.tokens() == 1 ? "" : "s", c.tokens() == 1 ? "" : "s", fmt::join(c.labels, " "));
  if (c.rule().alpha != 1.0 || c.rule().beta != 1.0) {
    text += fmt::format("    alpha {:.6g}, beta {:.6g}\n", c.rule().alpha, c.rule().beta);
  }
  text += matrix("x", c.x, m.width, most) + matrix("W_gate", c.gate, m.width, most);
  text += matrix("W1 [h,D]", c.up, m.width, most) + matrix("W2 [D,h]", c.down, m.mlp_width, most);
  text += matrix("b_gate", c.gate_bias, m.mlp_width, most) + matrix("b1", c.up_bias, m.mlp_width, most) +
          matrix("b2", c.down_bias, m.width, most);
  text += matrix("U [V,D]", c.unembedding, m.width, most);
  text += norm("A", c.a, most) + norm("B", c.b, most) + norm("C", c.c, most) + norm("final", c.final, most);
  text += matrix("h", e.hidden, units, most) +
          matrix(c.down_bias.empty() ? "a = W2 h" : "a=W2 h+b2", e.module, m.width, most);
  text += matrix("p", e.probabilities, c.classes(), most);
  return text + matrix("dL/dW2", e.gradient, units, most);
}

std::string describe(const Counterexample& found, double scale) {
  const Statement& s = statements()[found.statement];
  const StatementOutcome o = found.outcome();
  const bool scaled = s.kind == StatementKind::bound && scale != 1.0;
  return fmt::format("  {} [{}], found as {}, made simpler:\n{}    measured  {:.9g}\n    bound     {:.9g}{}\n", s.id,
                     s.text, found.origin, describe(found.shrunk), o.measured, o.bound,
                     scaled ? fmt::format(", times {:g}: {:.9g}", scale, scale * o.bound) : std::string()) +
         fmt::format("    ratio     {:.9g}\n", o.ratio());
}

std::string describe(const Replay& replay, double scale) {
  std::string text = fmt::format("case {}\n{}", replay.origin, describe(replay.found));
  dataset::TextTable table({"statement", ">measured", ">bound", ">ratio", ""});
  for (std::size_t k = 0; k < replay.checked.size(); ++k) {
    const Statement& s = statements()[replay.checked[k]];
    const StatementOutcome& o = replay.outcomes[k];
    const bool broken = o.violates(s.kind == StatementKind::bound ? scale : 1.0);
    const bool decided = s.kind == StatementKind::identity || o.is_trivial() || o.is_resolved();
    const char* word = !broken && !decided                  ? "holds; rounding is as large as the bound"
                       : !broken                            ? "holds"
                       : s.kind == StatementKind::refutable ? "broken: claim is false"
                                                            : "VIOLATED";
    table.add({std::string(s.id), fmt::format("{:.8g}", o.measured), fmt::format("{:.8g}", o.bound),
               std::isnan(o.ratio()) ? "-" : fmt::format("{:.8g}", o.ratio()), word});
  }
  text += table.text(2);
  if (scale != 1.0) text += fmt::format("  bounds that should hold were multiplied by {:g}\n", scale);
  for (const Counterexample& violation : replay.violations) text += "violation\n" + describe(violation, scale);
  return text;
}

Json replay_json(const Replay& replay, double scale) {
  Json json{{"origin", replay.origin}, {"scale", scale}};
  for (std::size_t k = 0; k < replay.checked.size(); ++k) {
    const StatementOutcome& o = replay.outcomes[k];
    json["statements"].push_back({{"id", statements()[replay.checked[k]].id},
                                  {"measured", o.measured},
                                  {"bound", o.bound},
                                  {"rounding", o.rounding},
                                  {"ratio", o.ratio()}});
  }
  json["violations"] = Json::array();
  for (const Counterexample& c : replay.violations) json["violations"].push_back(counterexample_json(c));
  json["case"] = case_json(replay.found);
  return json;
}

}  // namespace periscope::verify
