#include "experiments/studies/verify/adversary.h"

#include <algorithm>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <numbers>

#include "experiments/studies/verify/statements.h"
#include "sim/base/first_exception.h"
#include "sim/random/philox.h"

namespace periscope::verify {
namespace {

/// Shape and kinds of an attack's cases; the numbers come from the start.
struct AttackSetting {
  SublayerRule rule;
  NormKind norm = NormKind::rms;
  int width = 5;
  bool final_norm = false;
  bool unembedding = false;
};

/// Logits behind a norm are at most gain·√D, and p − y across the output needs p_y small where two logits are nearly
/// equal: √2 is the limit of large gains.
constexpr double decisive_gain = 100.0;

BoundCase random_start(const AttackSetting& setting, std::uint64_t seed, std::uint32_t start) {
  PhiloxEngine engine({seed, start, Stream::verify_attack});
  boost::random::normal_distribution<double> normal;
  const int d = setting.width;
  constexpr int units = 3;
  const auto draw = [&](int count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& v : values) v = normal(engine);
    return values;
  };
  BoundCase c = plain_case(setting.rule, d);
  c.set("norm", {static_cast<double>(setting.norm)});
  c.set("x", draw(d), d);
  c.set("up", draw(units * d), d);
  c.set("down", draw(d * units), units);
  if (setting.unembedding) c.set("unembedding", draw(d * d), d);
  const std::vector<double> decisive(static_cast<std::size_t>(d), decisive_gain);
  if (setting.rule.norm_c) c.set("norm_c.gain", decisive);
  if (setting.final_norm) c.set("final_norm.gain", decisive);
  return c;
}

/// Gradient over the bound without its loss factor: the constant that this case needs in place of √2.
double sharp_whole(const BoundCase& c) {
  const Evaluation e = evaluate(c);
  const TokenFacts& t = e.tokens.front();
  return e.gradient_norm / (theory::path_norm(e.path(t)) * t.hidden);
}

/// The constant that the entry and the unit need that come closest, in place of (1+√2)/2.
double sharp_entry(const BoundCase& c) {
  const Evaluation e = evaluate(c);
  const double path = theory::path_norm(e.path(e.tokens.front()));
  const auto units = static_cast<std::size_t>(c.units());
  double largest = 0.0;
  for (std::size_t k = 0; k < e.gradient.size(); ++k) {
    if (e.hidden[k % units] != 0.0) largest = std::max(largest, std::abs(e.gradient[k] / e.hidden[k % units]) / path);
  }
  return largest;
}

/// Measured over bound of a row of the table.
std::function<double(const BoundCase&)> ratio_to(std::string_view id) {
  const Statement& statement = statements()[statement_index(id)];
  return [&statement](const BoundCase& c) { return statement.check(c, evaluate(c)).ratio(); };
}

Attack attack_of(const AttackSetting& setting, std::string name, std::string about, double limit, std::string formula,
                 double required, std::function<double(const BoundCase&)> objective) {
  return {.name = std::move(name),
          .about = std::move(about),
          .limit = limit,
          .limit_formula = std::move(formula),
          .required = required,
          .begin = [setting](std::uint64_t seed, std::uint32_t start) { return random_start(setting, seed, start); },
          .objective = std::move(objective)};
}

/// Numbers that an ascent may change.
std::vector<double*> free_numbers(BoundCase& c) {
  std::vector<double*> numbers;
  for (const char* name : {"x", "up", "down", "unembedding"}) {
    const auto it = c.parameters.find(name);
    if (it == c.parameters.end()) continue;
    for (double& v : it->second.values) numbers.push_back(&v);
  }
  return numbers;
}

/// log(objective), −∞ where it is zero or undefined (no active unit).
double height(const Attack& attack, const BoundCase& c) {
  const double value = attack.objective(c);
  return value > 0.0 && std::isfinite(value) ? std::log(value) : -HUGE_VAL;
}

std::vector<double> slope(const Attack& attack, BoundCase& c) {
  std::vector<double> gradient;
  for (double* v : free_numbers(c)) {
    const double at = *v;
    const double step = 1e-6 * (1.0 + std::abs(at));
    *v = at + step;
    const double above = height(attack, c);
    *v = at - step;
    const double below = height(attack, c);
    *v = at;
    const double derivative = (above - below) / (2.0 * step);
    gradient.push_back(std::isfinite(derivative) ? derivative : 0.0);
  }
  return gradient;
}

double norm_of(const std::vector<double>& v) {
  double sum = 0.0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

/// Ascent along the gradient with momentum. The step is a length, doubled after a success, halved after a failure.
/// Ends where a whole stretch of steps gains next to nothing.
void climb(const Attack& attack, BoundCase& c) {
  constexpr int most_stretches = 40, stretch = 10;
  constexpr double shortest = 1e-9, momentum = 0.6, worthwhile = 1e-6;
  double best = height(attack, c);
  double length = 0.1;
  std::vector<double> direction(free_numbers(c).size(), 0.0);
  const auto step = [&] {
    const std::vector<double> gradient = slope(attack, c);
    const double size = norm_of(gradient);
    if (!(size > 0.0)) return;
    for (std::size_t i = 0; i < gradient.size(); ++i) direction[i] = momentum * direction[i] + gradient[i] / size;
    const double norm = norm_of(direction);
    for (; length > shortest; length *= 0.5) {
      BoundCase candidate = c;
      const std::vector<double*> numbers = free_numbers(candidate);
      for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i] += length * direction[i] / norm;
      const double reached = height(attack, candidate);
      if (!(reached > best)) continue;
      best = reached;
      c = std::move(candidate);
      length *= 2.0;
      return;
    }
    std::ranges::fill(direction, 0.0);  // stuck: the next step goes along the gradient alone
    length = 1e-3;
  };
  for (int k = 0; k < most_stretches && std::isfinite(best); ++k) {
    const double before = best;
    for (int i = 0; i < stretch; ++i) step();
    if (best - before < worthwhile) return;
  }
}

}  // namespace

std::vector<Attack> attacks() {
  constexpr SublayerRule pre{.norm_a = true}, peri{.norm_a = true, .norm_b = true}, post{.norm_c = true};
  constexpr double root2 = std::numbers::sqrt2;
  const std::string whole = "gradient / (gamma sqrt(D) |h|/|a|)";
  const std::string whole_post = "gradient / (gamma sqrt(D) |h|/|x+a|)";
  std::vector<Attack> all;
  const auto add = [&](auto... arguments) { all.push_back(attack_of(arguments...)); };
  add(AttackSetting{.rule = pre}, "Pre, no final norm", "gradient / |h|", root2, "sqrt2", 0.99, sharp_whole);
  add(AttackSetting{.rule = peri}, "Peri, RMSNorm", whole, root2, "sqrt2", 0.99, sharp_whole);
  add(AttackSetting{.rule = peri, .norm = NormKind::layer}, "Peri, LayerNorm", whole, root2, "sqrt2", 0.99,
      sharp_whole);
  add(AttackSetting{.rule = post}, "Post, RMSNorm", whole_post, root2, "sqrt2", 0.99, sharp_whole);
  add(AttackSetting{.rule = post, .norm = NormKind::layer}, "Post, LayerNorm", whole_post, root2, "sqrt2", 0.99,
      sharp_whole);
  add(AttackSetting{.rule = pre, .final_norm = true}, "Pre, final norm", whole_post, root2, "sqrt2", 0.99, sharp_whole);
  add(AttackSetting{.rule = pre, .final_norm = true, .unembedding = true}, "Pre, final norm, U",
      "gradient / (|U| gamma sqrt(D) |h|/|x+a|)", root2, "sqrt2", 0.9, sharp_whole);
  add(AttackSetting{.rule = peri}, "Peri, one entry", "entry i,j / (gamma sqrt(D) |h_i|/|a|)", 0.5 * (1.0 + root2),
      "(1+sqrt2)/2", 0.99, sharp_entry);
  add(AttackSetting{.rule = post}, "Post, one entry", "entry i,j / (gamma sqrt(D) |h_i|/|x+a|)", 0.5 * (1.0 + root2),
      "(1+sqrt2)/2", 0.99, sharp_entry);
  add(AttackSetting{.rule = peri}, "Peri, paper's 4", "gradient / paper's bound", root2 / 4.0, "sqrt2/4", 0.99,
      ratio_to("C.2-whole"));
  add(AttackSetting{.rule = post}, "Post, paper's 4", "gradient / paper's bound", root2 / 4.0, "sqrt2/4", 0.99,
      ratio_to("C.3-whole"));
  add(AttackSetting{.rule = peri, .width = 3}, "reviews' bound, D = 3", "gradient / reviews' bound", 3.0 * root2 / 4.0,
      "sqrt2 D/4", 0.99, ratio_to("G4-whole"));
  add(AttackSetting{.rule = peri, .width = 4}, "reviews', entry, D = 4", "entry / reviews' bound", 0.5 * (1.0 + root2),
      "(1+sqrt2) D/8", 0.99, ratio_to("G4"));
  add(AttackSetting{.rule = peri}, "growth (T16)", "sqrt(q+) / (sqrt(q) + gamma)", 1.0, "1", 0.99, ratio_to("T16"));
  return all;
}

BoundAttackResult run_attack(const Attack& attack, std::uint64_t seed, int starts) {
  std::vector<BoundCase> ends(static_cast<std::size_t>(starts));
  std::vector<double> reached(ends.size(), 0.0);
  FirstException failure;
#pragma omp parallel for schedule(dynamic, 1)
  for (int s = 0; s < starts; ++s) {
    failure.run([&] {
      const auto i = static_cast<std::size_t>(s);
      ends[i] = attack.begin(seed, static_cast<std::uint32_t>(s));
      climb(attack, ends[i]);
      const double value = attack.objective(ends[i]);
      if (std::isfinite(value)) reached[i] = value;
    });
  }
  failure.rethrow();
  const auto best = static_cast<std::size_t>(std::ranges::max_element(reached) - reached.begin());
  BoundAttackResult result{.name = attack.name,
                           .about = attack.about,
                           .limit_formula = attack.limit_formula,
                           .limit = attack.limit,
                           .required = attack.required,
                           .reached = reached[best],
                           .best = ends[best]};
  std::ranges::sort(reached);
  result.median = reached[reached.size() / 2];
  return result;
}

}  // namespace periscope::verify
