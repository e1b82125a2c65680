#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "experiments/engine/judge/claims.h"
#include "experiments/ledger/claims.h"

namespace periscope::ledger {

/// Where a result was read from. Only `commit` is set for a result without a cell.
struct Source {
  std::string settings = {};  ///< sweeps::ResolvedCell::settings; also set if the cell was not computed
  std::string cell = {};      ///< id, hexadecimal
  std::string file = {};      ///< path in the ledger's folder
  std::string sha256 = {};    ///< of the file
  std::string commit = {};    ///< of the program that judged it
};

/// A claim and its verdict in one regime.
struct Entry {
  const ClaimRow* claim;
  double regime;  ///< σ√D; NaN if the claim does not depend on it
  judge::SignClaim judged;
  bool failed = false;   ///< its cell or expression failed; the reason has the message
  bool missing = false;  ///< its cell was not computed
  Source from{};
};

nlohmann::ordered_json json_of(const ClaimRow& claim);
nlohmann::ordered_json json_of(const Entry& entry);

/// Results in an earlier ledger.json.
class StoredResults {
 public:
  StoredResults() = default;
  /// Throws InputError, naming the claim.
  explicit StoredResults(const std::string& path);

  /// Returns the result of a claim at these settings, also of another program. Returns nullptr if there is none or if a
  /// field of the claim has changed.
  [[nodiscard]] const Entry* find(const ClaimRow& claim, const std::string& settings) const;

 private:
  std::map<std::string, nlohmann::json> claims_;                  ///< by id
  std::map<std::pair<std::string, std::string>, Entry> results_;  ///< by claim and settings; without claim and regime
};

}  // namespace periscope::ledger
