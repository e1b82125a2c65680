#pragma once

#include "experiments/common/columns.h"
#include "experiments/verify/verify.h"

namespace periscope {

/// For people: statements, attacks, what was refuted and how, violations, and the verdict.
std::string verify_table(const VerifyResult& result, bool colour);

/// "holds", "violated", "refuted", "not refuted", or "no case" if none met the statement with a bound that says
/// something.
std::string_view verdict_of(const Statement& statement, const Tally& tally);

/// Cases that --replay reads.
nlohmann::ordered_json counterexample_json(const Counterexample& counterexample);
nlohmann::ordered_json counterexamples_json(const std::vector<Counterexample>& all);
nlohmann::ordered_json replay_json(const Replay& replay, double scale);

/// Statements, histograms of ratios, ratios over width, attacks, the massive-activation sweep, and counterexamples.
const Schema& verify_schema();
Columns verify_columns(const VerifyResult& result, const nlohmann::ordered_json& provenance);

}  // namespace periscope
