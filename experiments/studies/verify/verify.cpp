#include "experiments/studies/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/parallel_for.h"
#include "sim/numerics/larger.h"

namespace periscope::verify {
namespace {

/// A false claim is refuted only by a clear violation, not by rounding or a near miss.
constexpr double clear = 1.05;

std::optional<StatementOutcome> violation_of(const Statement& s, const BoundCase& c, double scale) {
  if (!s.applies(c)) return std::nullopt;
  const StatementOutcome o = s.check(c, evaluate(c));
  const bool broken = s.should_hold() ? o.is_broken(scale) : o.bound > 0.0 && o.is_resolved() && o.violates(clear);
  return broken ? std::optional(o) : std::nullopt;
}

/// Finds a case that violates a statement and shrinks it. Candidates in order: the first violating random case; the
/// random case with the largest ratio; the best cases of attacks. Shrinking keeps a resolved violation resolved.
std::optional<Counterexample> find_counterexample(const VerifyResult& r, const StatementResult& of) {
  const Statement& s = *of.statement;
  std::vector<std::pair<std::string, BoundCase>> candidates;  // (origin, case)
  for (const auto& id : {of.first_violation, of.largest_case}) {
    if (!id) continue;
    candidates.emplace_back(fmt::format("{}:{}", r.config.seed, *id),
                            generate_case(r.config.seed, static_cast<std::uint32_t>(*id)));
  }
  for (const BoundAttackResult& a : r.attacks) candidates.emplace_back(fmt::format("attack: {}", a.name), a.best);
  for (const auto& [origin, found] : candidates) {
    const auto first = violation_of(s, found, r.config.scale);
    if (!first) continue;
    const BoundCase simple = shrink(found, [&](const BoundCase& simpler) {
      const auto o = violation_of(s, simpler, r.config.scale);
      return o && (o->is_resolved() || !first->is_resolved());
    });
    return Counterexample{s.check(simple, evaluate(simple)), origin, simple};
  }
  return std::nullopt;
}

std::vector<StatementResult> random_cases(const VerifyConfig& config, stacks::Progress& progress) {
  constexpr int widths = 64, chunk = 2000;
  std::vector<StatementResult> results;
  for (const Statement& s : statements()) {
    results.push_back({Tally(), &s, std::vector(widths, Tally(Tally::coarse))});
  }
  progress.begin("verify", config.cases);
  for (int begin = 0; begin < config.cases; begin += chunk) {
    progress.throw_if_stop_requested();
    const auto first = static_cast<std::uint32_t>(begin);
    const auto count = static_cast<std::uint32_t>(std::min(chunk, config.cases - begin));
    std::vector<std::pair<std::size_t, std::vector<StatementOutcome>>> cases(count);  // (width, outcomes)
    parallel_for(count, [&](std::uint32_t i) {
      const BoundCase c = generate_case(config.seed, first + i);
      cases[i] = {c.size(Dimension::feature), check_statements(c, evaluate(c))};
    });
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& [width, outcomes] = cases[i];
      for (const StatementOutcome& o : outcomes) {
        StatementResult& result = results[static_cast<std::size_t>(o.statement - statements().data())];
        for (Tally* tally : {static_cast<Tally*>(&result), &result.by_width[width - 1]}) {
          tally->add(first + i, o, o.is_broken(config.scale));
        }
      }
    }
    progress.step("random cases", static_cast<int>(count));
  }
  return results;
}

}  // namespace

void Tally::add(std::uint64_t id, const StatementOutcome& o, bool is_broken) {
  ++cases;
  if (is_broken && violations++ == 0) first_violation = id;
  if (o.is_trivial()) {
    ++trivial;
    return;
  }
  if (!o.is_resolved()) return;
  const double ratio = o.violates(1.0) ? o.ratio() : std::min(o.ratio(), 1.0);  // an excess within rounding counts as 1
  const double last = static_cast<double>(histogram.size()) - 1.0;
  const double bin = ratio > 0.0 ? std::ceil((std::log10(ratio) - lowest) * per_decade) - 1.0 : 0.0;
  ++histogram[static_cast<std::size_t>(std::clamp(std::isnan(bin) ? last : bin, 0.0, last))];
  if (ratio > largest || (ratio == largest && !largest_case)) {
    largest = ratio;
    largest_case = id;
  }
}

std::uint64_t Tally::ratios() const { return std::reduce(histogram.begin(), histogram.end()); }

double Tally::quantile(double q) const {
  const std::uint64_t all = ratios();
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const double wanted = q * static_cast<double>(all);
  std::uint64_t below = 0;
  std::size_t i = 0;
  while (i + 1 < histogram.size() && static_cast<double>(below + histogram[i]) < wanted) below += histogram[i++];
  const double share = (wanted - static_cast<double>(below)) / std::max(1.0, static_cast<double>(histogram[i]));
  const double bin = static_cast<double>(i) + std::clamp(share, 0.0, 1.0);
  return std::min(std::pow(10.0, lowest + bin / per_decade), largest);
}

std::string_view StatementResult::verdict() const {
  if (violations > 0) return statement->should_hold() ? "violated" : "refuted";
  if (cases == trivial) return "no case";
  return statement->should_hold() ? "holds" : "not refuted";
}

bool StatementResult::passed() const {
  for (std::size_t i = 0; i < by_width.size(); ++i) {
    if (by_width[i].largest > statement->limit(static_cast<int>(i) + 1) * attained_limit) return false;
  }
  return statement->should_hold() ? violations == 0 && !counterexample : counterexample.has_value();
}

bool VerifyResult::passed() const {
  const auto succeeded = [&](const BoundAttackResult& a) { return a.passed(config.scale); };
  return std::ranges::all_of(statements, &StatementResult::passed) && std::ranges::all_of(attacks, succeeded) &&
         std::ranges::all_of(massive, &MassiveCurve::passed);
}

VerifyResult run(const VerifyConfig& config, stacks::Progress& progress) {
  VerifyResult r;
  r.config = config;
  r.statements = random_cases(config, progress);
  r.attacks = run_attacks(config, progress);
  r.massive = sweep_massive(config.seed);
  for (StatementResult& s : r.statements) {
    progress.throw_if_stop_requested();
    s.counterexample = find_counterexample(r, s);
  }
  return r;
}

}  // namespace periscope::verify
