#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/studies/verify/bound_case.h"

namespace periscope::verify {
namespace {

std::array<std::vector<double>*, 16> arrays_of(BoundCase& c) {
  return {&c.x,      &c.gate,   &c.up,     &c.down,   &c.gate_bias, &c.up_bias, &c.down_bias,  &c.unembedding,
          &c.a.gain, &c.a.bias, &c.b.gain, &c.b.bias, &c.c.gain,    &c.c.bias,  &c.final.gain, &c.final.bias};
}

void drop_row(std::vector<double>& w, int row, int cols) {
  if (w.empty()) return;
  w.erase(w.begin() + static_cast<std::ptrdiff_t>(row) * cols, w.begin() + static_cast<std::ptrdiff_t>(row + 1) * cols);
}

void drop_column(std::vector<double>& w, int column, int cols) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(cols)) != column) kept.push_back(w[i]);
  }
  w = std::move(kept);
}

void drop_class(BoundCase& c, int which) {
  for (int& label : c.labels) label -= static_cast<int>(label > which);
}

/// Each returns false if it does not apply.
bool drop_token(BoundCase& c, int t) {
  if (c.tokens() < 2) return false;
  drop_row(c.x, t, c.model.width);
  c.labels.erase(c.labels.begin() + t);
  return true;
}

bool is_label(const BoundCase& c, int which) { return std::ranges::find(c.labels, which) != c.labels.end(); }

bool drop_feature(BoundCase& c, int j) {
  const int d = c.model.width;
  if (d <= (c.model.norm == NormKind::layer ? 2 : 1) || (!c.model.unembedding && is_label(c, j))) return false;
  for (std::vector<double>* w : {&c.x, &c.gate, &c.up, &c.unembedding}) drop_column(*w, j, d);
  for (CaseNorm* n : {&c.a, &c.b, &c.c, &c.final}) {
    drop_column(n->gain, j, d);
    drop_column(n->bias, j, d);
  }
  drop_row(c.down, j, c.model.mlp_width);
  drop_row(c.down_bias, j, 1);
  if (!c.model.unembedding) drop_class(c, j);
  c.model.width = c.model.head_dim = d - 1;
  return true;
}

bool drop_unit(BoundCase& c, int i) {
  if (c.model.mlp_width < 2) return false;
  for (std::vector<double>* b : {&c.gate_bias, &c.up_bias}) drop_row(*b, i, 1);
  drop_row(c.gate, i, c.model.width);
  drop_row(c.up, i, c.model.width);
  drop_column(c.down, i, c.model.mlp_width);
  --c.model.mlp_width;
  return true;
}

bool drop_vocabulary(BoundCase& c, int which) {
  if (!c.model.unembedding || c.model.vocab < 2 || is_label(c, which)) return false;
  drop_row(c.unembedding, which, c.model.width);
  drop_class(c, which);
  --c.model.vocab;
  return true;
}

/// Kinds, norms and scales, one at a time.
bool simplify_kind(BoundCase& c, int step) {
  SublayerRule rule = c.rule();
  ModelSpec& m = c.model;
  const auto without = [&](bool& present, CaseNorm& norm) {
    if (!std::exchange(present, false)) return false;
    norm = {};
    m.placement = custom_placement(rule);
    return true;
  };
  const auto with_scale = [&](double& scale) {
    if (std::exchange(scale, 1.0) == 1.0) return false;
    m.placement = custom_placement(rule);
    return true;
  };
  switch (step) {
    case 0: return without(rule.norm_a, c.a);
    case 1: return without(rule.norm_b, c.b);
    case 2: return without(rule.norm_c, c.c);
    case 3: return without(m.final_norm, c.final);
    case 4:
      if (!m.unembedding || std::ranges::any_of(c.labels, [&](int l) { return l >= m.width; })) return false;
      m.unembedding = false;
      c.unembedding.clear();
      return true;
    case 5: return with_scale(rule.alpha);
    case 6: return with_scale(rule.beta);
    case 7: return std::exchange(m.norm_eps, 0.0) != 0.0;
    case 8:
      c.gate.clear();
      c.gate_bias.clear();
      return std::exchange(m.mlp, MlpKind::relu) != MlpKind::relu;
    case 18: return !std::exchange(c.up_bias, {}).empty() || !std::exchange(c.gate_bias, {}).empty();
    case 19: return !std::exchange(c.down_bias, {}).empty();
    case 9: {
      if (m.norm == NormKind::rms) return false;
      m.norm = NormKind::rms;
      for (CaseNorm* n : {&c.a, &c.b, &c.c, &c.final}) n->bias.clear();
      return true;
    }
    default: {
      CaseNorm* norms[] = {&c.a, &c.b, &c.c, &c.final};
      CaseNorm& n = *norms[(step - 10) / 2];
      if (step % 2 == 0) {
        if (n.bias.empty()) return false;
        n.bias.clear();
        return true;
      }
      const bool plain = std::ranges::all_of(n.gain, [](double g) { return g == 1.0; });
      std::ranges::fill(n.gain, 1.0);
      return !plain;
    }
  }
}
constexpr int kind_steps = 20;

/// A number to `digits` significant decimal digits: the double nearest to that decimal.
double rounded(double v, int digits) { return std::stod(fmt::format("{:.{}e}", v, digits - 1)); }

/// How simple a number is, less is simpler: 0, ±1, then by its significant digits and its distance from 1.
double complexity(double v) {
  if (v == 0.0) return 0.0;
  if (std::abs(v) == 1.0) return v > 0.0 ? 1.0 : 1.5;
  int digits = 1;
  while (digits < 17 && rounded(v, digits) != v) ++digits;
  return 2.0 + digits + 0.1 * std::abs(std::log10(std::abs(v))) + (v < 0.0 ? 0.01 : 0.0);
}

class Shrinker {
 public:
  Shrinker(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget)
      : case_(std::move(c)), fails_(fails), budget_(budget) {}

  BoundCase run() {
    for (bool changed = true; changed && budget_ > 0;) {
      changed = shapes();
      changed = numbers() || changed;
    }
    return case_;
  }

 private:
  bool try_case(const BoundCase& candidate) {
    if (budget_ <= 0) return false;
    --budget_;
    if (!fails_(candidate)) return false;
    case_ = candidate;
    return true;
  }
  /// One thing less, as often as that works, from the last to the first.
  template <class Drop>
  bool drop_each(int count, Drop drop) {
    bool changed = false;
    for (int i = count - 1; i >= 0; --i) {
      BoundCase candidate = case_;
      changed |= drop(candidate, i) && try_case(candidate);
    }
    return changed;
  }
  bool shapes() {
    bool changed = drop_each(case_.tokens(), drop_token);
    changed |= drop_each(kind_steps, simplify_kind);
    changed |= drop_each(case_.model.mlp_width, drop_unit);
    changed |= drop_each(case_.model.vocab, drop_vocabulary);
    return drop_each(case_.model.width, drop_feature) || changed;
  }
  bool numbers() {
    bool changed = false;
    for (std::size_t k = 0; k < arrays_of(case_).size(); ++k) {
      for (std::size_t i = 0; i < arrays_of(case_)[k]->size(); ++i) changed |= simplify_number(k, i);
    }
    return changed;
  }
  bool simplify_number(std::size_t array, std::size_t i) {
    const double v = (*arrays_of(case_)[array])[i];
    for (const double simpler :
         {0.0, 1.0, -1.0, std::copysign(10.0, v), rounded(v, 1), rounded(v, 2), rounded(v, 3), rounded(v, 6)}) {
      if (!(complexity(simpler) < complexity(v))) continue;
      BoundCase candidate = case_;
      (*arrays_of(candidate)[array])[i] = simpler;
      if (try_case(candidate)) return true;
    }
    return false;
  }

  BoundCase case_;
  const std::function<bool(const BoundCase&)>& fails_;
  int budget_;
};

}  // namespace

BoundCase shrink(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget) {
  return Shrinker(std::move(c), fails, budget).run();
}

}  // namespace periscope::verify
