#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/judge/sign_claim_tests.h"
#include "experiments/studies/reproduce/claims.h"

namespace periscope::reproduce {

/// Writes the list of claims, each from the groups that it needs. A claim whose groups did not all run stays `not_run`.
class Ledger {
 public:
  using Reading = std::function<double(const training::TrainedCell&)>;
  /// Computes a number from the runs of one seed, given in the order of the groups needed.
  using TwinReading = std::function<double(const std::vector<const training::TrainedCell*>&)>;
  /// Two differences by seed, of which a claim says that one is small beside the other.
  struct Differences {
    std::vector<double> large, small;
  };
  using DifferencesReading = std::function<Differences(const std::vector<const GroupRuns*>&)>;
  /// Computes the table that test_some_row_positive tests from all runs of the groups needed.
  using TableReading = std::function<judge::SeedTable(const std::vector<const GroupRuns*>&)>;
  /// The name and the wording of a claim; see SignClaim.
  struct Words {
    std::string id, exhibit, statement, quantity;
    /// Number of training tokens within which the source sees it. Shorter runs can confirm the claim but not refute it.
    double within_tokens = 0.0;
  };

  explicit Ledger(const std::vector<GroupRuns>& runs) : runs_(runs) {}

  void add(const Words& words, const std::vector<std::string>& needed, const TwinReading& value);
  /// Adds the claim that `reading` is larger in the first group than in the second.
  void larger(const Words& words, const std::string& first, const std::string& second, const Reading& reading);

  /// Adds the claim that the mean over seeds of the second difference (`small`) is less than half of that of the first
  /// (`large`): test_alike.
  void alike(const Words& words, const std::vector<std::string>& needed, const DifferencesReading& differences);

  /// Adds the claim that some row of a table of numbers is positive throughout: test_some_row_positive.
  void some_row(const Words& words, const std::vector<std::string>& needed, const TableReading& table);

  /// Adds the claim that the standard deviation of `reading` over the seeds is more than `factor` times as large in the
  /// first group as in the second: test_spreads_more.
  void spreads(const Words& words, const std::string& first, const std::string& second, double factor,
               const Reading& reading);

  [[nodiscard]] std::vector<judge::SignClaim> take() { return std::move(claims_); }
  [[nodiscard]] const std::vector<GroupRuns>& runs() const { return runs_; }

 private:
  using Judge = std::function<void(const std::vector<const GroupRuns*>&, judge::SignClaim&)>;
  void add_judged(const Words& words, const std::vector<std::string>& needed, const Judge& judge);

  const std::vector<GroupRuns>& runs_;
  std::vector<judge::SignClaim> claims_;
};

/// R3 and R8: the order and the shape of final losses over sweeps of the learning rate.
void add_rate_claims(Ledger& ledger);

}  // namespace periscope::reproduce
