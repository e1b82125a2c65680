#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/reproduce/claims.h"

namespace periscope::reproduce {

/// Writes the list of claims, each from the groups that it needs. A claim whose groups did not all run stays `not_run`.
class Ledger {
 public:
  using Reading = std::function<double(const train::TrainedCell&)>;
  /// Of the runs of one seed, in the order of the groups needed.
  using TwinReading = std::function<double(const std::vector<const train::TrainedCell*>&)>;
  /// One number per seed, of all runs of the groups needed.
  using GroupReading = std::function<std::vector<double>(const std::vector<const GroupRuns*>&)>;
  /// Two differences by seed, of which a claim says that one is small beside the other.
  struct Differences {
    std::vector<double> large, small;
  };
  using DifferencesReading = std::function<Differences(const std::vector<const GroupRuns*>&)>;
  /// What a claim is called and says; see Claim.
  struct Words {
    std::string id, exhibit, statement, quantity;
  };

  explicit Ledger(const std::vector<GroupRuns>& runs) : runs_(runs) {}

  void add_of_groups(const Words& words, const std::vector<std::string>& needed, const GroupReading& values);
  void add(const Words& words, const std::vector<std::string>& needed, const TwinReading& value);
  /// That `reading` is larger in the first group than in the second.
  void larger(const Words& words, const std::string& first, const std::string& second, const Reading& reading);

  /// That the second of two differences is, of its mean over seeds, less than half of the first: test_alike.
  void alike(const Words& words, const std::vector<std::string>& needed, const DifferencesReading& differences);

  [[nodiscard]] std::vector<Claim> take() { return std::move(claims_); }
  [[nodiscard]] const std::vector<GroupRuns>& runs() const { return runs_; }

 private:
  using Judge = std::function<void(const std::vector<const GroupRuns*>&, Claim&)>;
  void add_judged(const Words& words, const std::vector<std::string>& needed, const Judge& judge);

  const std::vector<GroupRuns>& runs_;
  std::vector<Claim> claims_;
};

/// Fills verdict, mean, standard_error, p and detectable from `values`: a one-sided t test, at least two values.
void test_positive(Claim& claim);

/// The same of |mean of `large`| / 2 − |mean of `small`|, whose terms by seed, with the signs of the means, are the
/// claim's values. It is positive where half of `large` less `small` and half of `large` plus `small` both are, or both
/// with the sign of `large` turned: two one-sided t tests (Schuirmann 1987), at half of the level, as the sign of
/// `large` is taken from the same seeds. That it is negative is tested likewise, with the roles exchanged.
void test_alike(Claim& claim, const std::vector<double>& large, const std::vector<double>& small);

/// R3 and R8: the order and the shape of final losses over sweeps of the learning rate.
void add_rate_claims(Ledger& ledger);

}  // namespace periscope::reproduce
