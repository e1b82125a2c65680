#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/studies/verify/bound_case.h"

namespace periscope::verify {
namespace {

/// Removes a gate that the MLP does not use, and biases without their weights.
void tidy(BoundCase& c) {
  if (!is_gated(c.mlp())) c.parameters.erase("gate");
  for (const ParameterKind& kind : parameter_kinds()) {
    if (!kind.needs.empty() && !c.has(kind.needs)) c.parameters.erase(std::string(kind.name));
  }
}

/// Removes index i of a dimension from every parameter that has it.
void drop(BoundCase& c, Dimension dimension, std::size_t i) {
  const bool is_class = dimension == c.class_dimension();  // before x or U lose it
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
  if (!is_class) return;
  for (double& label : c.parameters.at("labels").values) {
    if (label == static_cast<double>(i)) label = -1.0;  // not a valid case
    if (label > static_cast<double>(i)) label -= 1.0;
  }
}

/// v to `digits` significant decimal digits.
double rounded(double v, int digits) { return std::stod(fmt::format("{:.{}e}", v, digits - 1)); }

struct Shrinker {
  BoundCase simplest;
  const std::function<bool(const BoundCase&)>& fails;
  int budget;

  template <class Change>
  bool try_change(const Change& change) {
    BoundCase candidate = simplest;
    change(candidate);
    tidy(candidate);
    if (budget <= 0 || defect_of(candidate)) return false;
    --budget;
    if (!fails(candidate)) return false;
    simplest = std::move(candidate);
    return true;
  }
  bool drop_each(Dimension dimension) {
    bool changed = false;
    for (std::size_t i = simplest.size(dimension); i-- > 0 && simplest.size(dimension) > 1;) {
      changed |= try_change([&](BoundCase& c) { drop(c, dimension, i); });
    }
    return changed;
  }
  /// Removes a parameter; if that fails, sets all its numbers to the plain value.
  bool simplify(const ParameterKind& kind) {
    const std::string name(kind.name);
    bool changed = kind.optional && simplest.has(name) && try_change([&](BoundCase& c) { c.parameters.erase(name); });
    if (std::ranges::any_of(simplest.values(name), [&](double v) { return v != kind.plain; })) {
      changed |= try_change([&](BoundCase& c) { std::ranges::fill(c.parameters.at(name).values, kind.plain); });
    }
    return changed;
  }
  /// Tries simpler numbers, the simplest first; stops at the current value.
  bool simplify(const ParameterKind& kind, std::size_t i) {
    const double v = simplest.values(kind.name)[i];
    for (const double simpler :
         {kind.plain, 0.0, 1.0, -1.0, rounded(v, 1), rounded(v, 2), rounded(v, 3), rounded(v, 6)}) {
      if (simpler == v) return false;
      if (try_change([&](BoundCase& c) { c.parameters.find(kind.name)->second.values[i] = simpler; })) return true;
      if (kind.whole) return false;  // no other kind or class is simpler
    }
    return false;
  }
};

}  // namespace

BoundCase shrink(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget) {
  Shrinker s{std::move(c), fails, budget};
  for (bool changed = true; changed && s.budget > 0;) {
    changed = s.drop_each(Dimension::token);
    for (const ParameterKind& kind : parameter_kinds()) changed |= s.simplify(kind);
    for (const Dimension d : {Dimension::unit, Dimension::word, Dimension::feature}) changed |= s.drop_each(d);
    for (const ParameterKind& kind : parameter_kinds()) {
      for (std::size_t i = 0; i < s.simplest.values(kind.name).size(); ++i) changed |= s.simplify(kind, i);
    }
  }
  return s.simplest;
}

}  // namespace periscope::verify
