#include "experiments/studies/verify/verify.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/engine/result/text_table.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/strict_json.h"

namespace periscope::verify {
namespace {

std::string coloured(std::string_view word, bool good) {
  return fmt::format(fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red), "{}", word);
}

/// Formats a ratio with dataset::number; an infinite ratio (bound 0) is "inf".
std::string ratio_text(double ratio, const char* format = "{:.4g}") {
  return std::isinf(ratio) ? "inf" : dataset::number(ratio, format);
}

std::string statement_rows(const VerifyResult& r) {
  dataset::TextTable table(
      {"statement", ">cases", ">trivial", ">median", ">99 %", ">largest", ">violations", "verdict", ""});
  for (const StatementResult& s : r.statements) {
    table.add({std::string(s.statement->id), fmt::to_string(s.cases), fmt::to_string(s.trivial),
               dataset::number(s.quantile(0.5)), dataset::number(s.quantile(0.99)), ratio_text(s.largest),
               fmt::to_string(s.violations), coloured(s.verdict(), s.verdict() == "holds" || s.verdict() == "refuted"),
               std::string(s.statement->text)});
  }
  return table.text() +
         "median, 99 %, largest: measured over bound (C.1 and T15: deviation over what rounding allows); trivial: the "
         "bound is infinite (a norm of zero) or zero.\n";
}

std::string attack_rows(const VerifyResult& r) {
  dataset::TextTable table({"attack", ">reached", ">limit", ">share", "", "ratio"});
  for (const BoundAttackResult& a : r.attacks) {
    const bool good = a.passed(r.config.scale);
    const char* word = good ? "reached" : a.close_enough() ? "EXCEEDED" : "NOT REACHED";
    table.add({std::string(a.name), fmt::format("{:.6f}", a.reached), fmt::format("{:.6f}", a.limit),
               fmt::format("{:.5f}", a.share()), coloured(word, good), std::string(a.about)});
  }
  return "\n" + table.text();
}

std::string massive_rows(const VerifyResult& r) {
  dataset::TextTable table({"massive activations", "final norm", ">exponent of |h|", ">largest over ceiling", ""});
  for (const MassiveCurve& m : r.massive) {
    table.add({m.placement, m.final_norm ? "yes" : "no",
               fmt::format("{:.4f} ... {:.4f}", m.lowest_exponent, m.highest_exponent),
               std::isnan(m.ceiling) ? "" : fmt::format("{:.3f}", m.largest_to_ceiling),
               coloured(m.passed() ? "as predicted" : "NOT AS PREDICTED", m.passed())});
  }
  return fmt::format(
      "\n{}gradient against |h|; h scaled by 1 to {:g}, {} stacks; ceiling: bound that holds for every factor (T14d)\n",
      table.text(), massive_factors().back(), massive_stacks);
}

std::string summary(const VerifyResult& r) {
  if (!r.passed()) return "CHECK FAILED";
  const auto untested =
      std::ranges::count_if(r.statements, [](const StatementResult& s) { return s.verdict() == "no case"; });
  if (untested == 0) return "every bound holds, every false claim is refuted";
  return fmt::format("no bound is violated, but {} of {} statements apply to no case; every false claim is refuted",
                     untested, r.statements.size());
}

std::string describe(const BoundCase& c) {
  const Evaluation e = evaluate(c);
  std::string text =
      fmt::format("    {}, {}\n", facts_of(c.norm()).title, mlp_kind_names[static_cast<std::size_t>(c.mlp())]);
  const auto line = [&](std::string_view name, const std::string& numbers) {
    constexpr std::size_t most = 400;
    text += fmt::format("    {:<15} {}\n", name, numbers.size() > most ? numbers.substr(0, most) + " ..." : numbers);
  };
  nlohmann::ordered_json parameters = case_json(c);
  for (const char* named : {"mlp", "norm"}) parameters.erase(named);
  for (const auto& [name, rows] : parameters.items()) line(name, rows.dump());
  line("h", fmt::format("{:.6g}", fmt::join(e.hidden, ", ")));
  line("a", fmt::format("{:.6g}", fmt::join(e.module, ", ")));
  line("dL/dW2", fmt::format("{:.6g}", fmt::join(e.gradient, ", ")));
  return text;
}

std::string describe(const StatementResult& of, double scale) {
  const Counterexample& c = *of.counterexample;
  const bool is_scaled = of.statement->kind == StatementKind::bound && scale != 1.0;
  return fmt::format("  {} {} [{}], found as {}, shrunk:\n{}    measured {:.9g}, bound {:.9g}{}, ratio {:.9g}\n",
                     coloured(of.is_violated() ? "violated" : "refuted", !of.is_violated()), of.statement->id,
                     of.statement->text, c.origin, describe(c.found), c.measured, c.bound,
                     is_scaled ? fmt::format(" times {:g}", scale) : "", c.ratio());
}

/// Returns whether every measured value of a case is finite.
bool in_range(const Evaluation& e, const std::vector<StatementOutcome>& outcomes) {
  std::vector<double> all{e.gradient_norm};
  for (const auto* values : {&e.hidden, &e.module, &e.wrong}) all.insert(all.end(), values->begin(), values->end());
  for (const TokenTerms& t : e.tokens) all.insert(all.end(), {t.hidden, t.stream_rms, t.branch_rms, t.out_rms});
  for (const StatementOutcome& o : outcomes) all.push_back(o.measured);
  return std::ranges::all_of(all, [](double v) { return std::isfinite(v); });
}

}  // namespace

std::string case_file(const VerifyConfig& config, const Statement& statement) {
  return fmt::format("{}/violation-{}.json", config.out, statement.id);
}

std::string table(const VerifyResult& r) {
  const double scale = r.config.scale;
  std::string counterexamples;
  for (const StatementResult& s : r.statements) {
    if (!s.counterexample) continue;
    counterexamples += describe(s, scale);
    if (r.config.out.empty() || !s.is_violated()) continue;
    counterexamples +=
        fmt::format("    to reproduce: periscope verify --replay {}{}\n", printable(case_file(r.config, *s.statement)),
                    scale == 1.0 ? "" : fmt::format(" --scale {:g}", scale));
  }
  std::string table = statement_rows(r) + attack_rows(r) + massive_rows(r);
  if (!counterexamples.empty()) table += "\ncounterexamples\n" + counterexamples;
  if (r.config.out.empty() && std::ranges::any_of(r.statements, &StatementResult::is_violated)) {
    table += "  with --out DIR, the case of each violation is written to a file that --replay reads\n";
  }
  table += fmt::format("\n{} cases of seed {}", r.config.cases, r.config.seed);
  if (scale != 1.0) table += fmt::format(", bounds multiplied by {:g}", scale);
  return table + fmt::format(":\n{}\n", coloured(summary(r), r.passed()));
}

study::Outcome replay(const VerifyConfig& config) {
  const std::string& file = config.replay;
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) {
    throw ConfigError(fmt::format(
        "--replay {}: expected a JSON file with a case, such as the files that --out writes for violations", file));
  }
  const BoundCase found = case_from_json(read_strict_json(file), file);
  study::Outcome outcome{.document = {{"file", file}, {"scale", config.scale}}};
  dataset::TextTable table({"statement", ">measured", ">bound", ">ratio", ""});
  const Evaluation evaluation = evaluate(found);
  const std::vector<StatementOutcome> outcomes = check_statements(found, evaluation);
  if (!in_range(evaluation, outcomes)) {
    throw InputError(fmt::format(
        "{}: a signal or gradient of this case exceeds the range of f64, so no bound can be checked", file));
  }
  for (const StatementOutcome& o : outcomes) {
    const Statement& s = *o.statement;
    const bool is_broken = o.is_broken(config.scale);
    const char* broken = s.should_hold() ? "VIOLATED" : "broken: claim is false";
    const char* holds = o.is_trivial() || o.is_resolved() ? "holds" : "holds; rounding is as large as the bound";
    table.add({std::string(s.id), fmt::format("{:.8g}", o.measured), fmt::format("{:.8g}", o.bound),
               ratio_text(o.ratio(), "{:.8g}"), is_broken ? broken : holds});
    outcome.document["statements"].push_back({{"id", s.id},
                                              {"measured", o.measured},
                                              {"bound", o.bound},
                                              {"rounding", o.rounding},
                                              {"ratio", o.ratio()},
                                              {"broken", is_broken}});
    if (is_broken && s.should_hold()) outcome.code = ExitCode::check_failed;
  }
  outcome.document["case"] = case_json(found);
  outcome.table = fmt::format("case {}\n{}{}", file, describe(found), table.text(2));
  if (config.scale != 1.0) {
    outcome.table += fmt::format("  bounds that should hold were multiplied by {:g}\n", config.scale);
  }
  return outcome;
}

}  // namespace periscope::verify
