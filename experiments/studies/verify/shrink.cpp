#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/studies/verify/bound_case.h"

namespace periscope::verify {
namespace {

/// Takes away what a case of these kinds cannot have: a gate that the MLP does not use, the bias of what is gone.
void tidy(BoundCase& c) {
  if (!is_gated(c.mlp())) c.parameters.erase("gate");
  for (const ParameterKind& kind : parameter_kinds()) {
    if (!kind.needs.empty() && !c.has(kind.needs)) c.parameters.erase(std::string(kind.name));
  }
}

/// Takes index i of a dimension out of every parameter that has it.
void drop(BoundCase& c, Dimension dimension, std::size_t i) {
  for (const ParameterKind& kind : parameter_kinds()) {
    const auto it = c.parameters.find(kind.name);
    if (it == c.parameters.end() || (kind.rows != dimension && kind.cols != dimension)) continue;
    Parameter& p = it->second;
    std::vector<double> left;
    for (std::size_t k = 0; k < p.values.size(); ++k) {
      if (i != (kind.rows == dimension ? k / p.cols : k % p.cols)) left.push_back(p.values[k]);
    }
    p.cols -= static_cast<std::size_t>(kind.cols == dimension);
    p.values = std::move(left);
  }
  // Labels are words, or features where there is no unembedding. A label that is dropped leaves no whole case.
  if (dimension != (c.has_unembedding() ? Dimension::word : Dimension::feature)) return;
  for (double& label : c.parameters.at("labels").values) {
    if (label == static_cast<double>(i)) label = -1.0;
    if (label > static_cast<double>(i)) label -= 1.0;
  }
}

/// A number to `digits` significant decimal digits: the double nearest to that decimal.
double rounded(double v, int digits) { return std::stod(fmt::format("{:.{}e}", v, digits - 1)); }

/// Ranks numbers, less is simpler: the plain one, 0, ±1, then by its significant digits and its distance
/// from 1.
double complexity(double v, double plain) {
  if (v == plain) return 0.0;
  if (v == 0.0) return 0.5;
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
      for (const ParameterKind& kind : parameter_kinds()) changed = numbers(kind) || changed;
    }
    return case_;
  }

 private:
  template <class Change>
  bool try_change(const Change& change) {
    BoundCase candidate = case_;
    change(candidate);
    tidy(candidate);
    if (budget_ <= 0 || defect_of(candidate)) return false;
    --budget_;
    if (!fails_(candidate)) return false;
    case_ = std::move(candidate);
    return true;
  }

  bool shapes() {
    bool changed = false;
    const auto drop_each = [&](Dimension dimension) {
      for (std::size_t i = case_.size(dimension); i-- > 0 && case_.size(dimension) > 1;) {
        changed |= try_change([&](BoundCase& c) { drop(c, dimension, i); });
      }
    };
    drop_each(Dimension::token);
    for (const ParameterKind& kind : parameter_kinds()) {
      if (!case_.has(kind.name)) continue;
      if (kind.optional) changed |= try_change([&](BoundCase& c) { c.parameters.erase(std::string(kind.name)); });
      if (case_.has(kind.name) && !is_plain(kind)) {
        changed |= try_change([&](BoundCase& c) { std::ranges::fill(numbers_of(c, kind), kind.plain); });
      }
    }
    for (const Dimension d : {Dimension::unit, Dimension::word, Dimension::feature}) drop_each(d);
    return changed;
  }

  static std::vector<double>& numbers_of(BoundCase& c, const ParameterKind& kind) {
    return c.parameters.find(kind.name)->second.values;
  }
  [[nodiscard]] bool is_plain(const ParameterKind& kind) const {
    return std::ranges::all_of(case_.values(kind.name), [&](double v) { return v == kind.plain; });
  }

  bool numbers(const ParameterKind& kind) {
    bool changed = false;
    for (std::size_t i = 0; i < case_.values(kind.name).size(); ++i) changed |= simplify(kind, i);
    return changed;
  }
  bool simplify(const ParameterKind& kind, std::size_t i) {
    const double v = case_.values(kind.name)[i];
    for (const double simpler : {kind.plain, 0.0, 1.0, -1.0, std::copysign(10.0, v), rounded(v, 1), rounded(v, 2),
                                 rounded(v, 3), rounded(v, 6)}) {
      if (!(complexity(simpler, kind.plain) < complexity(v, kind.plain))) continue;
      if (try_change([&](BoundCase& c) { numbers_of(c, kind)[i] = simpler; })) return true;
      if (kind.whole) return false;  // other kinds and classes are no simpler
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
