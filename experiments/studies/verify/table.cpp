#include "experiments/studies/verify/report.h"

#include <fmt/color.h>
#include <fmt/format.h>

#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "sim/base/printable.h"

namespace periscope::verify {
namespace {

std::string coloured(const std::string& word, bool good) {
  return fmt::format(fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red), "{}", word);
}

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string statement_rows(const VerifyResult& r) {
  dataset::TextTable table(
      {"statement", ">cases", ">trivial", ">median", ">99 %", ">largest", ">violations", "verdict", ""});
  for (std::size_t k = 0; k < statements().size(); ++k) {
    const Statement& s = statements()[k];
    const Tally& t = r.tallies[k];
    const std::string_view word = verdict_of(s, t);
    const bool good = word == "holds" || word == "refuted";
    table.add({std::string(s.id), fmt::to_string(t.cases), fmt::to_string(t.trivial), number(t.quantile(0.5)),
               number(t.quantile(0.99)), number(t.largest), fmt::to_string(t.violations),
               coloured(std::string(word), good), std::string(s.text)});
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
                     r.growth.rms.size() - 1, r.growth.nearest);
}

/// Says in a line what the run shows; a statement that no case was about, or only cases of which it says nothing,
/// was not tested.
std::string summary(const VerifyResult& r) {
  if (!r.passed()) return "CHECK FAILED";
  std::ptrdiff_t untested = 0;
  for (std::size_t k = 0; k < statements().size(); ++k)
    untested += verdict_of(statements()[k], r.tallies[k]) == "no case" ? 1 : 0;
  if (untested == 0) return "every bound holds, every false claim is refuted";
  return fmt::format("no bound is violated, but {} of {} statements met no case; every false claim is refuted",
                     untested, statements().size());
}

}  // namespace

std::string_view verdict_of(const Statement& s, const Tally& t) {
  const bool refutable = s.kind == StatementKind::refutable;
  if (t.violations > 0) return refutable ? "refuted" : "violated";
  if (t.cases == t.trivial) return "no case";
  return refutable ? "not refuted" : "holds";
}

std::string case_file(const std::string& out, const Counterexample& violation) {
  return fmt::format("{}/violation-{}.json", out, statements()[violation.statement].id);
}

std::string table(const VerifyResult& r, const std::string& out) {
  std::string table = statement_rows(r) + attack_rows(r) + "\nclaims that are false\n";
  for (const Refutation& f : r.refutations) {
    table += fmt::format("  {} {}: {}\n    {}\n", coloured(f.refuted ? "refuted" : "NOT REFUTED", f.refuted), f.id,
                         f.claim, f.evidence);
    if (f.counterexample) table += describe(*f.counterexample, r.config.scale);
  }
  if (!r.violations.empty()) table += "\nviolations\n";
  for (const Counterexample& v : r.violations) {
    table += describe(v, r.config.scale);
    if (out.empty()) continue;
    table += fmt::format("    again: periscope verify --replay {}{}\n", printable(case_file(out, v)),
                         r.config.scale == 1.0 ? "" : fmt::format(" --scale {:g}", r.config.scale));
  }
  if (!r.violations.empty() && out.empty()) {
    table += "  with --out DIR each of these cases is written into a file that --replay reads\n";
  }
  table += fmt::format("\n{} cases of seed {}", r.config.cases, r.config.seed);
  if (r.config.scale != 1.0) table += fmt::format(", bounds multiplied by {:g}", r.config.scale);
  return table + fmt::format(":\n{}\n", coloured(summary(r), r.passed()));
}

}  // namespace periscope::verify
