#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/model/weights.h"
#include "sim/spec/profile.h"

namespace periscope::testing {

/// A matrix as rows.
using Rows = std::vector<std::vector<double>>;

/// Every signal of a stack for one sequence.
struct PlainRecord {
  Rows input;
  std::map<std::pair<int, Signal>, Rows> site;
  Rows stream;
  Rows output;
};

/// A whole stack in plain loops, written from T1–T5 and the definitions of the modules. It shares with
/// sim/model nothing but the weights' numbers, which are read through `backend`, and it knows T1's table by
/// the placements' names: only the free form is read from the model's placement.
PlainRecord plain_stack(const ModelSpec& model, const Backend& backend, const WeightSource& weights,
                        const Rows& embedded);

/// The free form and the named rows of T1's table for one layer, counted from 0.
SublayerRule plain_rule(const Placement& placement, int layer, int layers, ModuleKind kind = ModuleKind::attention);

Rows rows_of(const std::vector<double>& values, std::size_t width);
std::vector<double> flat(const Rows& rows);

}  // namespace periscope::testing
