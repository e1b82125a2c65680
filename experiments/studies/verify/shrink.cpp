#include <algorithm>

#include "experiments/studies/verify/bound_case.h"
#include "sim/base/rounded.h"

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
  const bool is_class = dimension == c.class_dimension();  // without U, the classes are the features
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
    if (label == static_cast<double>(i)) label = -1.0;  // makes the case invalid
    if (label > static_cast<double>(i)) label -= 1.0;
  }
}

}  // namespace

BoundCase shrink(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget) {
  const auto try_change = [&](const auto& change) {
    BoundCase candidate = c;
    change(candidate);
    tidy(candidate);
    if (budget <= 0 || defect_of(candidate)) return false;
    --budget;
    if (!fails(candidate)) return false;
    c = std::move(candidate);
    return true;
  };
  const auto drop_each = [&](Dimension dimension) {
    bool changed = false;
    for (std::size_t i = c.size(dimension); i-- > 0 && c.size(dimension) > 1;) {
      changed |= try_change([&](BoundCase& simpler) { drop(simpler, dimension, i); });
    }
    return changed;
  };
  // Removes a parameter; if that fails, sets all its numbers to the plain value.
  const auto simplify = [&](const ParameterKind& kind) {
    const std::string name(kind.name);
    bool changed = kind.optional && c.has(name) && try_change([&](BoundCase& s) { s.parameters.erase(name); });
    if (std::ranges::any_of(c.values(name), [&](double v) { return v != kind.plain; })) {
      changed |= try_change([&](BoundCase& s) { std::ranges::fill(s.parameters.at(name).values, kind.plain); });
    }
    return changed;
  };
  // Tries simpler numbers, the simplest first; stops at the current value.
  const auto simplify_number = [&](const ParameterKind& kind, std::size_t i) {
    const double v = c.values(kind.name)[i];
    for (const double simpler :
         {kind.plain, 0.0, 1.0, -1.0, rounded(v, 1), rounded(v, 2), rounded(v, 3), rounded(v, 6)}) {
      if (simpler == v) return false;
      if (try_change([&](BoundCase& s) { s.parameters.find(kind.name)->second.values[i] = simpler; })) return true;
      if (kind.count > 0) return false;  // only the plain kind or class counts as simpler
    }
    return false;
  };
  for (bool changed = true; changed && budget > 0;) {
    changed = drop_each(Dimension::token);
    for (const ParameterKind& kind : parameter_kinds()) changed |= simplify(kind);
    for (const Dimension d : {Dimension::unit, Dimension::word, Dimension::feature}) changed |= drop_each(d);
    for (const ParameterKind& kind : parameter_kinds()) {
      for (std::size_t i = 0; i < c.values(kind.name).size(); ++i) changed |= simplify_number(kind, i);
    }
  }
  return c;
}

}  // namespace periscope::verify
