#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "experiments/engine/run/journal_part.h"
#include "experiments/engine/settings/config.h"
#include "theory/predict/predict.h"

namespace periscope::stacks {

/// The key of `what` is predicted of one stack of a run: it says all that the prediction depends on. Reads the files
/// that the specifications name.
std::string prediction_key(std::string_view what, const StackSpec& measured, const StackSpec& overridden,
                           const config::Config& config);

/// False for the replicates of very deep stacks: reading them back would take about as long as computing them.
bool is_worth_keeping(const theory::Prediction& prediction);

/// A prediction as a cell of a journal, to its last bit.
nlohmann::ordered_json cached_prediction_json(const theory::Prediction& prediction);

/// The prediction of such a cell. Throws InputError, which names the journal's file and record, for anything but curves
/// of a prediction of `model`, of their lengths.
theory::Prediction cached_prediction(const JournalPart& cell, const ModelSpec& model);

}  // namespace periscope::stacks
