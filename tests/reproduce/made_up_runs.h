#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/reproduce/reproduce.h"

namespace periscope::testing {

/// A run of 40 steps and 3 layers with constant loss and gradient norms of 1. It has two equal records, at the start
/// and at the end, of all columns that claims read.
training::TrainingResult run_with_loss(double loss);

/// A group of three seeds, `make(0)`, `make(1)` and `make(2)`.
reproduce::GroupRuns group_of(const std::string& name, double rate,
                              const std::function<training::TrainingResult(int)>& make);

/// Returns the claim with this id; fails the running test if there is none.
const judge::SignClaim& claim(const std::vector<judge::SignClaim>& claims, const std::string& id);

}  // namespace periscope::testing
