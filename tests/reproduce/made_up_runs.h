#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/reproduce/reproduce.h"

namespace periscope::testing {

/// A run of 40 steps whose loss is `loss` and whose gradient norms are 1 throughout, of 3 layers, with two records of
/// everything that claims read, the same before training and at its end.
training::TrainingResult run_with_loss(double loss);

/// A group of three seeds, each made by `make` from 0, 1 and 2.
reproduce::GroupRuns group_of(const std::string& name, double rate,
                              const std::function<training::TrainingResult(int)>& make);

/// The claim of that id; fails the running test if there is none.
const judge::SignClaim& claim(const std::vector<judge::SignClaim>& claims, const std::string& id);

}  // namespace periscope::testing
