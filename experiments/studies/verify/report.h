#pragma once

#include <string>

#include "experiments/core/dataset/columns.h"
#include "experiments/studies/verify/verify.h"

namespace periscope::verify {

/// For people: statements, attacks, what was refuted and how, violations, and the verdict.
std::string table(const VerifyResult& result, bool colour);

/// "holds", "violated", "refuted", "not refuted", or "no case" if none met the statement with a bound that says
/// something.
std::string_view verdict_of(const Statement& statement, const Tally& tally);

/// Cases that --replay reads.
nlohmann::ordered_json counterexample_json(const Counterexample& counterexample);
nlohmann::ordered_json counterexamples_json(const std::vector<Counterexample>& all);
nlohmann::ordered_json replay_json(const Replay& replay, double scale);

/// Statements, histograms of ratios, ratios over width, attacks, the massive-activation sweep, and counterexamples.
const Schema& schema();
Columns columns(const VerifyResult& result, const nlohmann::ordered_json& provenance);

/// A case with its numbers, and what follows from them, so that it can be checked by hand: x, W1, W2, gains, h, a, p,
/// y and the gradient. Matrices of more than `most` numbers are left out.
std::string describe(const BoundCase& c, int most = 32);

/// The same with what the statement says about it: measured, bound and ratio. `scale` is what bounds that should hold
/// were multiplied by.
std::string describe(const Counterexample& counterexample, double scale);

/// Every statement's line for a replayed case, and the case.
std::string describe(const Replay& replay, double scale);

}  // namespace periscope::verify
