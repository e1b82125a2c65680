#pragma once

#include "experiments/common/columns.h"
#include "experiments/soundness/soundness.h"

namespace periscope {

/// For people: per arithmetic what was certified, run and violated, how near runs came to bounds; violations; a
/// verdict.
std::string soundness_table(const SoundnessResult& result, bool colour);

const Schema& soundness_schema();
Columns soundness_columns(const SoundnessResult& result, const nlohmann::ordered_json& provenance);

}  // namespace periscope
