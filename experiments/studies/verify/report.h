#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/engine/result/schema.h"
#include "experiments/studies/verify/verify.h"

namespace periscope::verify {

/// For people: statements, attacks, what was refuted and how, violations, and the verdict. `out` is the folder into
/// which the violations' cases are written; "" if none.
std::string table(const VerifyResult& result, const std::string& out = "");

/// The file in the folder `out` that holds a violation's case.
std::string case_file(const std::string& out, const Counterexample& violation);

/// "holds", "violated", "refuted", "not refuted", or "no case" if none met the statement with a bound that says
/// something.
std::string_view verdict_of(const Statement& statement, const Tally& tally);

/// The result: statements, histograms of ratios, ratios over width, attacks, the massive-activation sweep, refutations
/// and violations. Cases in it are JSON texts, as --replay reads them from a file.
const dataset::Schema& schema();
dataset::Dataset dataset_of(const VerifyResult& result);

/// A case with its numbers, and what follows from them, so that it can be checked by hand: its parameters, h, a, p and
/// the gradient. Matrices of more than `most` numbers are left out.
std::string describe(const BoundCase& c, int most = 32);

/// The case with the statement's numbers: measured, bound and ratio. `scale` is what bounds that should hold were
/// multiplied by.
std::string describe(const Counterexample& counterexample, double scale);

/// Every statement's line for a replayed case, and the case; for people and as a document.
std::string describe(const Replay& replay);
nlohmann::ordered_json replay_json(const Replay& replay);

}  // namespace periscope::verify
