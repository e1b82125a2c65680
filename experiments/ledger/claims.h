#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"

/// The ledger: claims of the literature and of this project, each decided by the result of a study.
namespace periscope::ledger {

/// How a claim is decided from the numbers that it reads.
enum class Kind {
  exact,         ///< every number equals `expected` up to `threshold`
  bound,         ///< all numbers are at most `threshold`
  positive,      ///< the mean over seeds is positive (one-sided t test)
  alike,         ///< |mean over seeds − expected| < threshold (two one-sided t tests)
  slope,         ///< as alike, for a slope or exponent
  law,           ///< the study's own verdict
  fact,          ///< a text contains `expected_text`, or two stated numbers are equal up to `threshold`
  not_testable,  ///< not testable here, for the given reason
};
inline constexpr std::array<std::string_view, 8> kind_names{"exact", "bound", "positive", "alike",
                                                            "slope", "law",   "fact",     "not-testable-here"};
static_assert(are_names_of<Kind>(kind_names));
[[nodiscard]] constexpr std::string_view name_of(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

/// A run whose result decides claims: one cell for every regime.
struct RunRow {
  std::string name = {};
  std::string study = {};
  std::vector<std::string> flags = {};     ///< "backward", "cases=1000"
  std::vector<std::string> settings = {};  ///< "model.layers=12"
  std::vector<std::string> quick = {};     ///< settings of the quick profile, which take precedence
  bool regimes = true;                     ///< run at every σ√D; false: once
  bool full_only = false;                  ///< omitted from the quick profile
};

/// A claim.
struct ClaimRow {
  std::string id = {};         ///< such as "F3"
  std::string source = {};     ///< paper and section
  std::string statement = {};  ///< the claim in our words
  std::string formula = {};
  std::string theory = {};  ///< statement of docs/theory that covers it, such as "T12"
  Kind kind = Kind::law;
  std::string run = {};        ///< RunRow::name; "" for claims without a run
  std::string read = {};       ///< expression (evaluate) or, for texts, a column (text_at)
  std::string verdict = {};    ///< column with the study's own verdict, which replaces the test of `read`
  std::string condition = {};  ///< column with the condition under which `verdict` applies
  std::string p = {};          ///< column with the p-value of `verdict`
  std::string quantity = {};   ///< column with a description of the number in `read`
  double expected = std::numeric_limits<double>::quiet_NaN();   ///< claimed number
  double threshold = std::numeric_limits<double>::quiet_NaN();  ///< largest deviation, or bound
  std::string derivation = {};                                  ///< where the threshold comes from
  std::string expected_text = {};
  std::string reason = {};  ///< why it is not testable here, or a remark on the claim
};

struct Claims {
  std::vector<double> regimes;  ///< σ√D
  std::vector<RunRow> runs;
  std::vector<ClaimRow> claims;

  /// Returns null for an unknown name.
  [[nodiscard]] const RunRow* find_run(std::string_view name) const;
};

/// Reads claims from a TOML file: `regimes`, [[run]] and [[claim]]. Throws ConfigError for unknown keys, repeated ids,
/// unknown runs and missing fields.
Claims read_claims(const std::string& path);

}  // namespace periscope::ledger
