#include "experiments/ledger/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/strict_json.h"

namespace periscope::ledger {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

/// Returns NaN for null.
double number_in(const json& value) { return value.is_null() ? nan : value.get<double>(); }

/// Returns the entry of a result in the form of json_of, without claim and regime.
Entry entry_of(const json& result, const std::string& claim) {
  judge::SignClaim judged{.id = claim, .quantity = result.at("quantity"), .reason = result.at("reason")};
  const std::string verdict = result.at("verdict");
  const auto known = std::ranges::find(judge::claim_verdict_names, verdict);
  if (known == judge::claim_verdict_names.end()) throw InputError("unknown verdict " + shortened(verdict));
  judged.verdict = static_cast<judge::ClaimVerdict>(known - judge::claim_verdict_names.begin());
  judged.values = mapped(result.at("values").get<std::vector<json>>(), number_in);
  judged.mean = {.value = number_in(result.at("value")), .error = number_in(result.at("error"))};
  judged.p = number_in(result.at("p"));
  judged.detectable = number_in(result.at("detectable"));
  if (judged.p < 0.0 || judged.p > 1.0) throw InputError(fmt::format("p = {}: expected 0 to 1", judged.p));
  return {.claim = nullptr,
          .regime = nan,
          .judged = judged,
          .from = {.settings = result.at("settings"),
                   .cell = result.at("cell"),
                   .file = result.at("file"),
                   .sha256 = result.at("sha256"),
                   .commit = result.at("commit")}};
}

}  // namespace

ordered_json json_of(const ClaimRow& claim) {
  return {{"id", claim.id},
          {"source", claim.source},
          {"statement", claim.statement},
          {"formula", claim.formula},
          {"theory", claim.theory},
          {"kind", name_of(claim.kind)},
          {"run", claim.run},
          {"read", claim.read},
          {"verdict", claim.verdict},
          {"condition", claim.condition},
          {"p", claim.p},
          {"quantity", claim.quantity},
          {"expected", number(claim.expected)},
          {"expected_text", claim.expected_text},
          {"threshold", number(claim.threshold)},
          {"derivation", claim.derivation},
          {"reason", claim.reason}};
}

ordered_json json_of(const Entry& entry) {
  const judge::SignClaim& judged = entry.judged;
  constexpr double level = 0.05;
  const double half =
      judged.values.size() > 1
          ? judge::critical_excess(static_cast<double>(judged.values.size() - 1), level) * judged.mean.error
          : nan;
  return {{"regime", number(entry.regime)},
          {"verdict", judge::name_of(judged.verdict)},
          {"value", number(judged.mean.value)},
          {"error", number(judged.mean.error)},
          {"interval", {number(judged.mean.value - half), number(judged.mean.value + half)}},
          {"detectable", number(judged.detectable)},
          {"p", number(judged.p)},
          {"holm", number(judged.holm)},
          {"values", mapped(judged.values, number)},
          {"quantity", judged.quantity},
          {"reason", judged.reason},
          {"settings", entry.from.settings},
          {"cell", entry.from.cell},
          {"file", entry.from.file},
          {"sha256", entry.from.sha256},
          {"commit", entry.from.commit}};
}

StoredResults::StoredResults(const std::string& path) {
  const json ledger = read_strict_json(path);
  std::string id = "none";
  try {
    for (json claim : ledger.at("claims").get<std::vector<json>>()) {
      id = claim.at("id");
      for (const json& result : claim.at("results").get<std::vector<json>>()) {
        Entry entry = entry_of(result, id);
        if (entry.judged.verdict == judge::ClaimVerdict::not_run) continue;
        const std::string settings = entry.from.settings;
        if (!results_.emplace(std::pair(id, settings), std::move(entry)).second)
          throw InputError("the same result twice");
      }
      claim.erase("results");
      if (!claims_.emplace(id, std::move(claim)).second) throw InputError("the same claim twice");
    }
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: claim {}: expected a ledger.json of this version, found: {}", printable(path),
                                 shortened(id), error.what()));
  }
}

const Entry* StoredResults::find(const ClaimRow& claim, const std::string& settings) const {
  const auto found = results_.find({claim.id, settings});
  return found != results_.end() && claims_.at(claim.id) == json(json_of(claim)) ? &found->second : nullptr;
}

}  // namespace periscope::ledger
