#pragma once

#include "experiments/common/netcdf_file.h"
#include "experiments/soundness/soundness.h"

namespace periscope {

/// For people: per arithmetic what was certified, run and violated, how near runs came to bounds; violations; a
/// verdict.
std::string soundness_table(const SoundnessResult& result, bool colour);
nlohmann::ordered_json soundness_json(const SoundnessResult& result);
NetcdfDataset soundness_dataset(const SoundnessResult& result, const nlohmann::ordered_json& provenance);

}  // namespace periscope
