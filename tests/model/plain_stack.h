#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/model/weights.h"
#include "sim/spec/profile.h"

namespace periscope::testing {

/// A matrix as a vector of rows.
using Rows = std::vector<std::vector<double>>;

/// Every signal of a stack for one sequence.
struct PlainRecord {
  Rows input;
  std::map<std::pair<int, Signal>, Rows> site;
  Rows stream;
  Rows output;
};

/// Computes a whole stack in plain loops, from theorems T1–T5 and the definitions of the modules. It shares only the
/// weights with sim/model, read through `backend`. Rules of named placements are independent of sim/spec.
PlainRecord plain_stack(const ModelSpec& model, const Backend& backend, const WeightSource& weights,
                        const Rows& embedded);

/// Returns the rule of a named or custom placement for one layer, counted from 0.
SublayerRule plain_rule(const Placement& placement, int layer, int layers, ModuleKind kind = ModuleKind::attention);

Rows rows_of(const std::vector<double>& values, std::size_t width);
std::vector<double> flat(const Rows& rows);

}  // namespace periscope::testing
