#include "experiments/verify/report.h"

#include <fmt/color.h>
#include <fmt/format.h>

#include <cmath>

#include "experiments/verify/describe.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

std::string coloured(const std::string& word, bool good, bool colour) {
  if (!colour) return word;
  return fmt::format(fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red), "{}", word);
}

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

/// "no case" if none met the statement with a bound that says something.
std::string_view verdict_of(const Statement& s, const Tally& t) {
  const bool refutable = s.kind == StatementKind::refutable;
  if (t.violations > 0) return refutable ? "refuted" : "violated";
  if (t.cases == t.trivial) return "no case";
  return refutable ? "not refuted" : "holds";
}

std::string statement_rows(const VerifyResult& r, bool colour) {
  std::string table = fmt::format("{:<11} {:>8} {:>8} {:>9} {:>9} {:>9} {:>10}  {:<12} {}\n", "statement", "cases",
                                  "trivial", "median", "99 %", "largest", "violations", "verdict", "");
  for (std::size_t k = 0; k < statements().size(); ++k) {
    const Statement& s = statements()[k];
    const Tally& t = r.tallies[k];
    const std::string_view word = verdict_of(s, t);
    const bool good = word == "holds" || word == "refuted";
    table += fmt::format("{:<11} {:>8} {:>8} {:>9} {:>9} {:>9} {:>10}  {} {}\n", s.id, t.cases, t.trivial,
                         number(t.quantile(0.5)), number(t.quantile(0.99)), number(t.largest), t.violations,
                         coloured(fmt::format("{:<12}", word), good, colour), s.text);
  }
  return table +
         "median, 99 %, largest: measured over bound (C.1 and T15: deviation over what rounding allows); trivial: the "
         "bound is infinite (a norm of zero) or zero.\n";
}

std::string attack_rows(const VerifyResult& r, bool colour) {
  std::string table =
      fmt::format("\n{:<24} {:>9} {:>9} {:>9}  {:<11} {}\n", "attack", "reached", "limit", "share", "", "made large");
  for (const BoundAttackResult& a : r.attacks) {
    const bool good = a.within(r.config.scale) && a.close_enough();
    const char* word = good ? "reached" : a.close_enough() ? "PASSED" : "NOT REACHED";
    table += fmt::format("{:<24} {:>9.6f} {:>9.6f} {:>9.5f}  {} {}\n", a.name, a.reached, a.limit, a.share(),
                         coloured(fmt::format("{:<11}", word), good, colour), a.about);
  }
  return table + fmt::format("aligned Peri stack of {} sublayers (T16): rms {:.6f} of its bound at the top\n",
                             r.growth.rms.size() - 1, r.growth.nearest);
}

Json counterexample_json(const Counterexample& c) {
  const Statement& s = statements()[c.statement];
  const StatementOutcome o = s.check(c.shrunk, evaluate(c.shrunk));
  return {{"statement", s.id},  {"origin", c.origin},          {"measured", o.measured},     {"bound", o.bound},
          {"ratio", o.ratio()}, {"case", case_json(c.shrunk)}, {"found", case_json(c.found)}};
}

Json counterexamples_json(const std::vector<Counterexample>& all) {
  Json list = Json::array();
  for (const Counterexample& c : all) list.push_back(counterexample_json(c));
  return list;
}

std::string_view kind_name(StatementKind kind) {
  return kind == StatementKind::bound ? "bound" : kind == StatementKind::identity ? "identity" : "refutable";
}

Json id_or_null(std::uint64_t id) { return id == Tally::none ? Json() : Json(id); }

}  // namespace

std::string verify_table(const VerifyResult& r, bool colour) {
  std::string table = statement_rows(r, colour) + attack_rows(r, colour) + "\nclaims that are false\n";
  for (const Refutation& f : r.refutations) {
    table += fmt::format("  {} {}: {}\n    {}\n", coloured(f.refuted ? "refuted" : "NOT REFUTED", f.refuted, colour),
                         f.id, f.claim, f.evidence);
    if (f.counterexample) table += describe(*f.counterexample, r.config.scale);
  }
  if (!r.violations.empty()) table += "\nviolations\n";
  for (const Counterexample& v : r.violations) {
    table += describe(v, r.config.scale);
    if (v.origin.find(' ') == std::string::npos) {
      table += fmt::format("    again: periscope verify --replay {}{}\n", v.origin,
                           r.config.scale == 1.0 ? "" : fmt::format(" --scale {:g}", r.config.scale));
    }
  }
  table += fmt::format("\n{} cases of seed {} in {:.1f} s ({:.0f}/s)", r.config.cases, r.config.seed, r.seconds,
                       static_cast<double>(r.config.cases) / r.seconds);
  if (r.config.scale != 1.0) table += fmt::format(", bounds multiplied by {:g}", r.config.scale);
  return table +
         fmt::format(": {}\n", coloured(r.passed() ? "every bound holds, every false claim is refuted" : "CHECK FAILED",
                                        r.passed(), colour));
}

Json verify_json(const VerifyResult& r) {
  Json json{{"cases", r.config.cases}, {"seed", r.config.seed}, {"scale", r.config.scale}};
  json["verdict"] = r.passed() ? "passed" : "failed";
  for (std::size_t k = 0; k < statements().size(); ++k) {
    const Statement& s = statements()[k];
    const Tally& t = r.tallies[k];
    json["statements"].push_back({{"id", s.id},
                                  {"kind", kind_name(s.kind)},
                                  {"source", s.source},
                                  {"text", s.text},
                                  {"cases", t.cases},
                                  {"trivial", t.trivial},
                                  {"unresolved", t.unresolved},
                                  {"violations", t.violations},
                                  {"first_violation", id_or_null(t.first_violation)},
                                  {"median", t.quantile(0.5)},
                                  {"q99", t.quantile(0.99)},
                                  {"largest", t.largest},
                                  {"largest_case", id_or_null(t.largest_case)},
                                  {"verdict", verdict_of(s, t)}});
  }
  for (const BoundAttackResult& a : r.attacks) {
    json["attacks"].push_back({{"name", a.name},
                               {"made_large", a.about},
                               {"reached", a.reached},
                               {"median", a.median},
                               {"limit", a.limit},
                               {"limit_formula", a.limit_formula},
                               {"share", a.share()},
                               {"required", a.required},
                               {"case", case_json(a.best)}});
  }
  json["aligned_growth"] = {{"rms", r.growth.rms}, {"bound", r.growth.bound}};
  json["massive"] = {{"stacks", r.massive.stacks}, {"factor", r.massive.factor}};
  for (const MassiveCurve& c : r.massive.curves) {
    json["massive"]["curves"].push_back({{"placement", c.placement},
                                         {"final_norm", c.final_norm},
                                         {"gradient", c.gradient},
                                         {"bound", c.bound},
                                         {"ceiling", c.ceiling},
                                         {"largest_ratio", c.largest_ratio},
                                         {"exponent", {c.lowest_exponent, c.highest_exponent}}});
  }
  for (const Refutation& f : r.refutations) {
    Json entry{{"id", f.id}, {"claim", f.claim}, {"refuted", f.refuted}, {"evidence", f.evidence}};
    if (f.counterexample) entry["counterexample"] = counterexample_json(*f.counterexample);
    json["refutations"].push_back(entry);
  }
  json["violations"] = counterexamples_json(r.violations);
  return json;
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
  json["violations"] = counterexamples_json(replay.violations);
  json["case"] = case_json(replay.found);
  return json;
}

}  // namespace periscope
