#include "experiments/studies/verify/verify.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "sim/base/printable.h"

namespace periscope::verify {
namespace {

std::string coloured(std::string_view word, bool good) {
  return fmt::format(fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red), "{}", word);
}

std::string number_or_dash(double value, const char* format) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}

std::string statement_rows(const VerifyResult& r) {
  dataset::TextTable table(
      {"statement", ">cases", ">trivial", ">median", ">99 %", ">largest", ">violations", "verdict", ""});
  for (const StatementResult& s : r.statements) {
    std::vector<std::string> cells{std::string(s.statement->id), fmt::to_string(s.cases), fmt::to_string(s.trivial)};
    for (const double x : {s.quantile(0.5), s.quantile(0.99), s.largest}) {
      cells.push_back(number_or_dash(x, "{:.4g}"));
    }
    cells.push_back(fmt::to_string(s.violations));
    cells.push_back(coloured(s.verdict(), s.verdict() == "holds" || s.verdict() == "refuted"));
    cells.emplace_back(s.statement->text);
    table.add(std::move(cells));
  }
  return table.text() +
         "median, 99 %, largest: measured over bound (C.1 and T15: deviation over what rounding allows); trivial: the "
         "bound is infinite (a norm of zero) or zero.\n";
}

std::string attack_rows(const VerifyResult& r) {
  dataset::TextTable table({"attack", ">reached", ">limit", ">share", "", "made large"});
  for (const BoundAttackResult& a : r.attacks) {
    const bool good = a.within(r.config.scale) && a.close_enough();
    const char* word = good ? "reached" : a.close_enough() ? "PASSED" : "NOT REACHED";
    table.add({std::string(a.name), fmt::format("{:.6f}", a.reached), fmt::format("{:.6f}", a.limit),
               fmt::format("{:.5f}", a.share()), coloured(word, good), std::string(a.about)});
  }
  return fmt::format("\n{}aligned Peri stack of {} sublayers (T16): rms {:.6f} of its bound at the top\n", table.text(),
                     r.growth.rms.size() - 1, r.growth.rms.back() / r.growth.bound.back());
}

/// Says in a line what the run shows; a statement that no case was about, or only cases of which it says nothing,
/// was not tested.
std::string summary(const VerifyResult& r) {
  if (!r.passed()) return "CHECK FAILED";
  const auto untested =
      std::ranges::count_if(r.statements, [](const StatementResult& s) { return s.verdict() == "no case"; });
  if (untested == 0) return "every bound holds, every false claim is refuted";
  return fmt::format("no bound is violated, but {} of {} statements met no case; every false claim is refuted",
                     untested, r.statements.size());
}

/// "name [..]", one line per row; of many numbers only how many.
std::string matrix(std::string_view name, std::span<const double> values, std::size_t cols) {
  constexpr std::size_t most = 32;
  if (values.size() > most) return fmt::format("    {:<10} {} numbers\n", name, values.size());
  std::string text;
  for (std::size_t row = 0; row < values.size(); row += cols) {
    text += fmt::format("    {:<10} [{:.6g}]\n", row == 0 ? name : "", fmt::join(values.subspan(row, cols), ", "));
  }
  return text;
}

/// A case, h, a, p and the gradient.
std::string describe(const BoundCase& c) {
  const Evaluation e = evaluate(c);
  const auto units = static_cast<std::size_t>(c.units());
  std::string text = fmt::format(
      "    {}, {}, eps {:g}, {}, alpha {:.6g}, beta {:.6g}: D = {}, hidden units {}, labels {}\n", placement_of(c),
      facts_of(c.norm()).title, c.number("norm_eps"), mlp_kind_names[static_cast<std::size_t>(c.mlp())],
      c.number("alpha"), c.number("beta"), c.width(), units, fmt::join(c.labels(), " "));
  for (const ParameterKind& kind : parameter_kinds()) {
    if (kind.shown.empty() || !c.has(kind.name)) continue;
    const Parameter& p = c.parameters.find(kind.name)->second;
    text += matrix(kind.shown, p.values, kind.cols == Dimension::one ? p.values.size() : p.cols);
  }
  text += matrix("h", e.hidden, units);
  text += matrix(c.has("down_bias") ? "a=W2 h+b2" : "a = W2 h", e.module, c.size(Dimension::feature));
  text += matrix("p", e.probabilities, static_cast<std::size_t>(c.classes()));
  return text + matrix("dL/dW2", e.gradient, units);
}

std::string describe(const Counterexample& counterexample, double scale) {
  const Statement& s = *counterexample.statement;
  const bool is_scaled = s.kind == StatementKind::bound && scale != 1.0;
  return fmt::format(
      "  {} [{}], found as {}, made simpler:\n{}    measured  {:.9g}\n    bound     {:.9g}{}\n    ratio     {:.9g}\n",
      s.id, s.text, counterexample.origin, describe(counterexample.found), counterexample.measured,
      counterexample.bound, is_scaled ? fmt::format(", times {:g}: {:.9g}", scale, scale * counterexample.bound) : "",
      counterexample.ratio());
}

}  // namespace

std::string case_file(const std::string& out, const Counterexample& violation) {
  return fmt::format("{}/violation-{}.json", out, violation.statement->id);
}

std::string table(const VerifyResult& r, const std::string& out) {
  const double scale = r.config.scale;
  std::string table = statement_rows(r) + attack_rows(r) + "\nclaims that are false\n";
  for (const Refutation& f : r.refutations) {
    table += fmt::format("  {} {}: {}\n    {}\n", coloured(f.refuted ? "refuted" : "NOT REFUTED", f.refuted), f.id,
                         f.claim, f.evidence);
    if (f.counterexample) table += describe(*f.counterexample, scale);
  }
  if (!r.violations.empty()) table += "\nviolations\n";
  for (const Counterexample& v : r.violations) {
    table += describe(v, scale);
    if (out.empty()) continue;
    table += fmt::format("    again: periscope verify --replay {}{}\n", printable(case_file(out, v)),
                         scale == 1.0 ? "" : fmt::format(" --scale {:g}", scale));
  }
  if (!r.violations.empty() && out.empty()) {
    table += "  with --out DIR each of these cases is written into a file that --replay reads\n";
  }
  table += fmt::format("\n{} cases of seed {}", r.config.cases, r.config.seed);
  if (scale != 1.0) table += fmt::format(", bounds multiplied by {:g}", scale);
  return table + fmt::format(":\n{}\n", coloured(summary(r), r.passed()));
}

std::string describe(const Replay& replay) {
  const double scale = replay.config.scale;
  dataset::TextTable table({"statement", ">measured", ">bound", ">ratio", ""});
  for (const StatementOutcome& o : replay.outcomes) {
    const Statement* s = o.statement;
    const bool decided = s->kind == StatementKind::identity || o.is_trivial() || o.is_resolved();
    const char* broken = s->should_hold() ? "VIOLATED" : "broken: claim is false";
    const char* held = decided ? "holds" : "holds; rounding is as large as the bound";
    table.add({std::string(s->id), fmt::format("{:.8g}", o.measured), fmt::format("{:.8g}", o.bound),
               number_or_dash(o.ratio(), "{:.8g}"), o.is_broken(scale) ? broken : held});
  }
  const std::string text = fmt::format("case {}\n{}{}", replay.config.replay, describe(replay.found), table.text(2));
  if (scale == 1.0) return text;
  return text + fmt::format("  bounds that should hold were multiplied by {:g}\n", scale);
}

nlohmann::ordered_json replay_json(const Replay& replay) {
  nlohmann::ordered_json json{{"file", replay.config.replay}, {"scale", replay.config.scale}};
  for (const StatementOutcome& o : replay.outcomes) {
    json["statements"].push_back({{"id", o.statement->id},
                                  {"measured", o.measured},
                                  {"bound", o.bound},
                                  {"rounding", o.rounding},
                                  {"ratio", o.ratio()},
                                  {"broken", o.is_broken(replay.config.scale)}});
  }
  json["case"] = case_json(replay.found);
  return json;
}

}  // namespace periscope::verify
