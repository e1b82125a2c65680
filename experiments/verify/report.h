#pragma once

#include "experiments/common/netcdf_file.h"
#include "experiments/verify/verify.h"

namespace periscope {

/// For people: statements, attacks, what was refuted and how, violations, and the verdict.
std::string verify_table(const VerifyResult& result, bool colour);

/// Everything in the table, and every counterexample as a case that --replay reads.
nlohmann::ordered_json verify_json(const VerifyResult& result);
nlohmann::ordered_json replay_json(const Replay& replay, double scale);

/// Statements, histograms of ratios, ratios over width, attacks and the massive-activation sweep.
NetcdfDataset verify_dataset(const nlohmann::ordered_json& provenance, const VerifyResult& result);

}  // namespace periscope
