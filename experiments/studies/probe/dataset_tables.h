#pragma once

#include <string>

#include "experiments/engine/result/table.h"
#include "experiments/studies/probe/probe.h"

/// The parts of the result's columns.
namespace periscope::probe {

/// Returns the columns of the stream's growth (T15), and of the part of it that is due to the weights' sizes (T29).
dataset::Table<ProbeResult> growth_table();
/// The largest entries of the stream, and the margins of number formats.
dataset::Table<ProbeResult> extremes_table();

/// The text of a token, as the tokenizer has it; "" without one.
std::string token_text(const stacks::TokenInput& input, int id);

}  // namespace periscope::probe
