#pragma once

#include <nlohmann/json.hpp>

#include "experiments/engine/run/journal_part.h"
#include "sim/measure/probe.h"
#include "sim/spec/model_spec.h"

namespace periscope::stacks {

/// One seed's reading as a cell of a journal, to its last bit; it has no standard errors.
nlohmann::ordered_json cached_json(const Reading& reading);

/// The reading of such a cell. Throws InputError, which names the journal's file and record, for anything but the
/// curves and lengths that a pass through `model` gives, forward and with `backward` back.
Reading cached_reading(const JournalPart& cell, const ModelSpec& model, bool backward);

}  // namespace periscope::stacks
