#include "experiments/studies/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "experiments/studies/verify/draw.h"
#include "sim/base/parallel_for.h"

namespace periscope::verify {
namespace {

/// The ratio approaches √2 only if p_y is small and p − y is orthogonal to the norm's output. Then two entries of the
/// output are nearly equal, so logits must be large. They are at most gain·√D, so the gain must be large.
constexpr double decisive_gain = 100.0;

BoundCase random_start(const Attack& attack, std::uint64_t seed, std::uint32_t start) {
  Draw draw({seed, start, Stream::verify_attack});
  const int d = attack.width;
  constexpr int units = 3;
  BoundCase c = plain_case(attack.rule, d);
  c.set("norm", {static_cast<double>(attack.norm)});
  c.set("x", draw.normals(d, 1.0), d);
  c.set("up", draw.normals(units * d, 1.0), d);
  c.set("down", draw.normals(d * units, 1.0), units);
  if (attack.unembedding) c.set("unembedding", draw.normals(d * d, 1.0), d);
  const std::vector<double> decisive(static_cast<std::size_t>(d), decisive_gain);
  if (attack.rule.norm_c) c.set("norm_c.gain", decisive);
  if (attack.final_norm) c.set("final_norm.gain", decisive);
  return c;
}

std::vector<double*> free_numbers(BoundCase& c) {
  std::vector<double*> numbers;
  for (const char* name : {"x", "up", "down", "unembedding"}) {
    if (!c.has(name)) continue;
    for (double& v : c.parameters.at(name).values) numbers.push_back(&v);
  }
  return numbers;
}

double ratio_of(const Attack& attack, const BoundCase& c) {
  return statement(attack.statement).measure(c, evaluate(c), attack.factor).ratio();
}

/// Returns log(ratio), or −∞ if the ratio is zero or undefined (no active unit).
double log_ratio(const Attack& attack, const BoundCase& c) {
  const double value = ratio_of(attack, c);
  return value > 0.0 && std::isfinite(value) ? std::log(value) : -HUGE_VAL;
}

std::vector<double> gradient_of(const Attack& attack, BoundCase& c) {
  std::vector<double> gradient;
  for (double* v : free_numbers(c)) {
    const double at = *v;
    const double step = 1e-6 * (1.0 + std::abs(at));
    *v = at + step;
    const double above = log_ratio(attack, c);
    *v = at - step;
    const double below = log_ratio(attack, c);
    *v = at;
    const double derivative = (above - below) / (2.0 * step);
    gradient.push_back(std::isfinite(derivative) ? derivative : 0.0);
  }
  return gradient;
}

double norm_of(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// Ascends along the gradient with momentum. The step is doubled if the ratio grows, otherwise halved. Stops when ten
/// steps gain less than `least_gain`.
void climb(const Attack& attack, BoundCase& c) {
  constexpr int most_steps = 400, stretch = 10;
  constexpr double shortest = 1e-9, momentum = 0.6, least_gain = 1e-6;
  double best = log_ratio(attack, c), before = -HUGE_VAL;
  double length = 0.1;
  std::vector<double> direction(free_numbers(c).size(), 0.0);
  for (int k = 0; k < most_steps && std::isfinite(best); ++k) {
    if (k % stretch == 0 && best - std::exchange(before, best) < least_gain) return;
    const std::vector<double> gradient = gradient_of(attack, c);
    const double size = norm_of(gradient);
    if (!(size > 0.0)) continue;
    for (std::size_t i = 0; i < gradient.size(); ++i) direction[i] = momentum * direction[i] + gradient[i] / size;
    const double norm = norm_of(direction);
    bool higher = false;
    for (; length > shortest && !higher; length *= higher ? 2.0 : 0.5) {
      BoundCase candidate = c;
      const std::vector<double*> numbers = free_numbers(candidate);
      for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i] += length * direction[i] / norm;
      const double reached = log_ratio(attack, candidate);
      higher = reached > best;
      if (!higher) continue;
      best = reached;
      c = std::move(candidate);
    }
    if (higher) continue;
    std::ranges::fill(direction, 0.0);  // stuck: restart along the gradient alone
    length = 1e-3;
  }
}

BoundAttackResult run_attack(const Attack& attack, std::uint64_t seed, int starts) {
  std::vector<BoundCase> ends(static_cast<std::size_t>(starts));
  std::vector<double> reached(ends.size(), 0.0);
  parallel_for(ends.size(), [&](std::size_t i) {
    ends[i] = random_start(attack, seed, static_cast<std::uint32_t>(i));
    climb(attack, ends[i]);
    const double value = ratio_of(attack, ends[i]);
    if (std::isfinite(value)) reached[i] = value;
  });
  const auto best = static_cast<std::size_t>(std::ranges::max_element(reached) - reached.begin());
  return {attack, reached[best], ends[best]};
}

}  // namespace

BoundAttackResult grow_aligned(int sublayers, int width, double gain) {
  std::vector<double> x;
  for (int i = 0; i < width; ++i) x.push_back(std::cos(1.0 + i));  // an arbitrary direction
  BoundCase c = plain_case(peri, width);
  c.set("x", x, width);
  c.set("up", x, width);
  c.set("down", x);
  c.set("norm_b.gain", std::vector<double>(x.size(), gain));
  double start = 0.0, farthest = 1.0;
  for (int k = 0; k < sublayers; ++k) {
    const TokenTerms token = evaluate(c).tokens.front();
    if (k == 0) start = token.stream_rms;
    const double ratio = token.out_rms / (start + (k + 1) * gain);
    if (!(std::abs(ratio - 1.0) <= std::abs(farthest - 1.0))) farthest = ratio;
    for (double& v : c.parameters.at("x").values) v *= token.out_rms / token.stream_rms;  // to the output's rms
  }
  constexpr Attack aligned{
      .name = "aligned stack (T16)", .about = "rms at depth l / (rms of the input + l gamma)", .required = 1.0 - 1e-12};
  return {aligned, farthest, c};
}

std::vector<BoundAttackResult> run_attacks(const VerifyConfig& config, stacks::Progress& progress) {
  constexpr auto rms = NormKind::rms, layer = NormKind::layer;
  constexpr double whole = whole_constant, entry = entry_constant;
  using theory::path_norm, theory::paper_factor, theory::review_factor;
  // clang-format off
  constexpr Attack all[] = {
      {"Pre, no final norm", "gradient / |h|", "T14a", path_norm, whole, pre},
      {"Peri, RMSNorm", "gradient / (gamma sqrt(D) |h|/|a|)", "T14b", path_norm, whole, peri},
      {"Peri, LayerNorm", "gradient / (gamma sqrt(D) |h|/|a|)", "T14b", path_norm, whole, peri, layer},
      {"Post, RMSNorm", "gradient / (gamma sqrt(D) |h|/|x+a|)", "T14c", path_norm, whole, post},
      {"Post, LayerNorm", "gradient / (gamma sqrt(D) |h|/|x+a|)", "T14c", path_norm, whole, post, layer},
      {"Pre, final norm", "gradient / (gamma sqrt(D) |h|/|x+a|)", "T14d", path_norm, whole, pre, rms, true},
      {"Pre, final norm, U", "gradient / (|U| gamma sqrt(D) |h|/|x+a|)", "T14d", path_norm, whole, pre, rms, true, true, 5, 0.9},
      {"Peri, one entry", "entry i,j / (gamma sqrt(D) |h_i|/|a|)", "T14b-entry", path_norm, entry, peri},
      {"Post, one entry", "entry i,j / (gamma sqrt(D) |h_i|/|x+a|)", "T14c-entry", path_norm, entry, post},
      {"Peri, paper's 4", "gradient / paper's bound", "C.2-whole", paper_factor, whole / 4.0, peri},
      {"Post, paper's 4", "gradient / paper's bound", "C.3-whole", paper_factor, whole / 4.0, post},
      {"reviews' bound, D = 3", "gradient / reviews' bound", "G4-whole", review_factor, 3.0 * whole / 4.0, peri, rms, false, false, 3},
      {"reviews', entry, D = 4", "entry / reviews' bound", "G4", review_factor, entry, peri, rms, false, false, 4},
      {"growth (T16)", "sqrt(q+) / (sqrt(q) + gamma)", "T16", nullptr, 1.0, peri},
  };
  // clang-format on
  std::vector<BoundAttackResult> results;
  progress.begin("attacks", static_cast<int>(std::size(all)));
  for (const Attack& attack : all) {
    progress.throw_if_stop_requested();
    results.push_back(run_attack(attack, config.seed, config.starts));
    progress.step(std::string(attack.name));
  }
  results.push_back(grow_aligned(48, 16, 1.0));
  return results;
}

}  // namespace periscope::verify
