#include "experiments/studies/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "sim/base/error.h"
#include "sim/base/first_exception.h"
#include "sim/checkpoint/strict_json.h"
#include "sim/numerics/larger.h"

namespace periscope::verify {
namespace {

/// A false claim is refuted only by a clear violation: rounding and near misses are no counterexamples.
constexpr double clear = 1.05;

/// The outcome of a case that breaks a statement.
std::optional<StatementOutcome> breach(const Statement& s, const BoundCase& c, double scale) {
  if (!s.applies(c)) return std::nullopt;
  const StatementOutcome o = s.check(c, evaluate(c));
  const bool broken = s.should_hold() ? o.is_broken(scale) : o.bound > 0.0 && o.is_resolved() && o.violates(clear);
  return broken ? std::optional(o) : std::nullopt;
}

/// Shrinks a case if it breaks the statement. One whose ratio is above rounding stays above it.
std::optional<Counterexample> counterexample(const Statement& s, std::string origin, const BoundCase& c, double scale) {
  const auto is_resolved = [&](const StatementOutcome& o) {
    return s.kind == StatementKind::identity || o.is_resolved();
  };
  const auto first = breach(s, c, scale);
  if (!first) return std::nullopt;
  const BoundCase simple = shrink(c, [&](const BoundCase& simpler) {
    const auto o = breach(s, simpler, scale);
    return o && (!is_resolved(*first) || is_resolved(*o));
  });
  return Counterexample{s.check(simple, evaluate(simple)), std::move(origin), simple};
}

/// A case that breaks a statement: the first of the random cases, or that of the largest ratio where the first breaks a
/// wrong statement too little to show it, or else where an attack ended.
std::optional<Counterexample> find_counterexample(const VerifyResult& r, const StatementResult& of) {
  for (const auto& id : {of.first_violation, of.largest_case}) {
    if (!id) continue;
    const BoundCase found = generate_case(r.config.seed, static_cast<std::uint32_t>(*id));
    const std::string origin = fmt::format("{}:{}", r.config.seed, *id);
    if (auto simple = counterexample(*of.statement, origin, found, r.config.scale)) return simple;
  }
  for (const BoundAttackResult& a : r.attacks) {
    const std::string origin = fmt::format("attack: {}", a.name);
    if (auto simple = counterexample(*of.statement, origin, a.best, r.config.scale)) return simple;
  }
  return std::nullopt;
}

/// A claim of the reviews, which a counterexample refutes.
Refutation refute_review(const VerifyResult& r, const StatementResult& of) {
  Refutation out{.id = std::string(of.statement->id),
                 .claim = fmt::format("reviews (claim G4): {}", of.statement->text),
                 .evidence = fmt::format("broken by {} of {} random cases, by a factor of up to {:.3g}", of.violations,
                                         of.cases, of.largest),
                 .counterexample = find_counterexample(r, of)};
  out.refuted = out.counterexample.has_value();
  return out;
}

/// The paper's constant 4 is not approached: nothing passes √2/4 of its bound, which attacks do reach.
Refutation refute_constant(const VerifyResult& r) {
  double random = 0.0;
  for (const StatementResult& s : r.statements) {
    if (s.statement->id == "C.2-whole" || s.statement->id == "C.3-whole") random = larger(random, s.largest);
  }
  double attacked = 0.0;
  for (const BoundAttackResult& a : r.attacks) {
    if (a.name.ends_with("paper's 4")) attacked = larger(attacked, a.reached);
  }
  const double limit = whole_constant / 4.0;
  return {.id = "paper-4",
          .claim = "the constant 4 of Propositions C.2 and C.3 cannot be lowered",
          .refuted = larger(random, attacked) <= limit * attained_limit && attacked >= 0.99 * limit,
          .evidence = fmt::format("largest gradient over the paper's bound: {:.6f} of random cases, {:.6f} of attacks; "
                                  "the limit of T14 is sqrt2/4 = {:.6f}",
                                  random, attacked, limit)};
}

Refutation refute_unbounded(const MassiveCurve& without, const MassiveCurve& with) {
  return {.id = "pre-unbounded",
          .claim = "with a final norm, too, Pre-LN's gradient grows without bound with the activation",
          .refuted = without.grows() && with.is_bounded(),
          .evidence = fmt::format(
              "{} stacks, |h| times 1 ... {:g}: exponent of |h| {:.4f} ... {:.4f} without a final norm, {:.4f} ... "
              "{:.4f} with one, where the gradient reaches at most {:.3f} of a bound that no factor can pass",
              massive_stacks, massive_factors().back(), without.lowest_exponent, without.highest_exponent,
              with.lowest_exponent, with.highest_exponent, with.largest_to_ceiling)};
}

/// True if everything that is measured of a case is finite.
bool in_range(const Evaluation& e) {
  std::vector<double> all{e.gradient_norm};
  for (const auto* values : {&e.hidden, &e.module, &e.wrong}) all.insert(all.end(), values->begin(), values->end());
  for (const TokenFacts& t : e.tokens) all.insert(all.end(), {t.hidden, t.stream_rms, t.branch_rms, t.out_rms});
  return std::ranges::all_of(all, [](double v) { return std::isfinite(v); });
}

}  // namespace

void Tally::add(std::uint64_t id, const StatementOutcome& o, bool is_broken) {
  ++cases;
  if (is_broken && violations++ == 0) first_violation = id;
  if (o.is_trivial()) {
    ++trivial;
    return;
  }
  if (!o.is_resolved()) {
    ++unresolved;
    return;
  }
  const double ratio = o.violates(1.0) ? o.ratio() : std::min(o.ratio(), 1.0);  // what rounding explains is no excess
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

std::vector<StatementResult> random_cases(const VerifyConfig& config, stacks::Progress& progress) {
  constexpr int widths = 64, bins_per_decade = 30, chunk = 2000;
  std::vector<StatementResult> results;
  for (const Statement& s : statements()) {
    results.push_back({Tally(), &s, std::vector(widths, Tally(bins_per_decade))});
  }
  progress.begin("verify", config.cases);
  for (int begin = 0; begin < config.cases; begin += chunk) {
    progress.throw_if_stop_requested();
    const auto first = static_cast<std::uint32_t>(begin);
    const auto count = static_cast<std::uint32_t>(std::min(chunk, config.cases - begin));
    std::vector<std::pair<std::size_t, std::vector<StatementOutcome>>> cases(count);  // width and outcomes
    FirstException failure;
#pragma omp parallel for schedule(dynamic, 16)
    for (std::uint32_t i = 0; i < count; ++i) {
      failure.run([&] {
        const BoundCase c = generate_case(config.seed, first + i);
        cases[i] = {c.size(Dimension::feature), check_statements(c, evaluate(c))};
      });
    }
    failure.rethrow();
    for (std::uint32_t i = 0; i < count; ++i) {
      for (const StatementOutcome& o : cases[i].second) {
        StatementResult& result = results[static_cast<std::size_t>(o.statement - statements().data())];
        result.add(first + i, o, o.is_broken(config.scale));
        result.by_width[cases[i].first - 1].add(first + i, o, o.is_broken(config.scale));
      }
    }
    progress.step("random cases", static_cast<int>(count));
  }
  return results;
}

bool VerifyResult::passed() const {
  const auto holds = [](const StatementResult& s) { return !s.statement->should_hold() || s.violations == 0; };
  const auto succeeded = [&](const BoundAttackResult& a) { return a.within(config.scale) && a.close_enough(); };
  return std::ranges::all_of(statements, holds) && violations.empty() && growth.worst <= 1e-12 &&
         std::ranges::all_of(attacks, succeeded) && std::ranges::all_of(refutations, &Refutation::refuted);
}

VerifyResult run(const VerifyConfig& config, stacks::Progress& progress) {
  VerifyResult r;
  r.config = config;
  const auto start = std::chrono::steady_clock::now();
  r.stopped_early = stacks::until_stopped([&] {
    r.statements = random_cases(config, progress);
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress.begin("attacks", static_cast<int>(attacks().size()));
    for (const Attack& attack : attacks()) {
      progress.throw_if_stop_requested();
      r.attacks.push_back(run_attack(attack, config.seed, config.starts));
      progress.step(std::string(attack.name));
    }
    r.growth = grow_aligned(24, 16, 1.0);
    r.massive = sweep_massive(config.seed);
    for (const StatementResult& s : r.statements) {
      progress.throw_if_stop_requested();
      if (!s.statement->should_hold()) {
        r.refutations.push_back(refute_review(r, s));
      } else if (auto found = find_counterexample(r, s)) {
        r.violations.push_back(std::move(*found));
      }
    }
    r.refutations.push_back(refute_constant(r));
    r.refutations.push_back(refute_unbounded(r.massive[0], r.massive[1]));
  });
  return r;
}

bool Replay::passed() const {
  return std::ranges::none_of(
      outcomes, [&](const StatementOutcome& o) { return o.statement->should_hold() && o.is_broken(config.scale); });
}

Replay replay(const VerifyConfig& config) {
  const std::string& file = config.replay;
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) {
    throw ConfigError(
        fmt::format("--replay {}: expected a JSON file with a case, as --out writes one for every violation", file));
  }
  Replay r{.config = config, .found = case_from_json(read_strict_json(file), file), .outcomes = {}};
  const Evaluation e = evaluate(r.found);
  r.outcomes = check_statements(r.found, e);
  const auto is_finite = [](const StatementOutcome& o) { return std::isfinite(o.measured); };
  if (in_range(e) && std::ranges::all_of(r.outcomes, is_finite)) return r;
  throw InputError(
      fmt::format("{}: a signal or gradient of this case leaves the range of f64: no bound can be judged", file));
}

}  // namespace periscope::verify
