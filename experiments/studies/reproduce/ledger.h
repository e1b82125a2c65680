#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/core/judge/sign_claim_tests.h"
#include "experiments/studies/reproduce/claims.h"

namespace periscope::reproduce {

/// Writes the list of claims, each from the groups that it needs. A claim whose groups did not all run stays `not_run`.
class Ledger {
 public:
  using Reading = std::function<double(const training::TrainedCell&)>;
  /// Of the runs of one seed, in the order of the groups needed.
  using TwinReading = std::function<double(const std::vector<const training::TrainedCell*>&)>;
  /// Two differences by seed, of which a claim says that one is small beside the other.
  struct Differences {
    std::vector<double> large, small;
  };
  using DifferencesReading = std::function<Differences(const std::vector<const GroupRuns*>&)>;
  /// Of all runs of the groups needed; see test_some_row_positive.
  using TableReading = std::function<judge::SeedTable(const std::vector<const GroupRuns*>&)>;
  /// What a claim is called and says; see SignClaim.
  struct Words {
    std::string id, exhibit, statement, quantity;
  };

  explicit Ledger(const std::vector<GroupRuns>& runs) : runs_(runs) {}

  void add(const Words& words, const std::vector<std::string>& needed, const TwinReading& value);
  /// That `reading` is larger in the first group than in the second.
  void larger(const Words& words, const std::string& first, const std::string& second, const Reading& reading);

  /// That the second of two differences is, of its mean over seeds, less than half of the first: test_alike.
  void alike(const Words& words, const std::vector<std::string>& needed, const DifferencesReading& differences);

  /// That some row of a table of numbers is positive throughout: test_some_row_positive.
  void some_row(const Words& words, const std::vector<std::string>& needed, const TableReading& table);

  /// That `reading` spreads over the seeds more than `factor` times as much in the first group as in the second:
  /// test_spreads_more.
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
