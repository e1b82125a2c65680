#include "experiments/ledger/verdicts.h"

#include "sim/base/error.h"
#include "tests/ledger/results.h"
#include "tests/support/doctest.h"

namespace periscope::ledger {
namespace {

using judge::ClaimVerdict;

/// Returns the verdict on a claim about x[seed].
judge::SignClaim decided(Kind kind, const std::vector<double>& x, double expected = 0.0, double threshold = 0.0) {
  dataset::Dataset data;
  data.dimensions = {{"seed", x.size()}};
  data.columns = {{"x", {"seed"}, x, "1", ""}};
  return decide({.id = "X", .kind = kind, .read = "x", .expected = expected, .threshold = threshold}, &data);
}

TEST_CASE("a positive mean holds, a negative one fails, and noise decides nothing") {
  CHECK(decided(Kind::positive, {1.0, 1.1, 0.9, 1.0}).verdict == ClaimVerdict::holds);
  CHECK(decided(Kind::positive, {-1.0, -1.1, -0.9, -1.0}).verdict == ClaimVerdict::fails);
  const judge::SignClaim noise = decided(Kind::positive, {1.0, -1.1, 0.9, -0.7});
  CHECK(noise.verdict == ClaimVerdict::not_shown);
  CHECK(noise.p > 0.05);
  CHECK(noise.p < 0.95);
}

TEST_CASE("a slope holds within the threshold, fails outside, and is not shown between") {
  for (const Kind kind : {Kind::alike, Kind::slope}) {
    const judge::SignClaim holds = decided(kind, {1.01, 0.99, 1.02, 0.98}, 1.0, 0.1);
    CHECK(holds.verdict == ClaimVerdict::holds);
    CHECK(holds.mean.value == doctest::Approx(1.0));
    CHECK(holds.values == std::vector<double>{1.01, 0.99, 1.02, 0.98});
    CHECK(decided(kind, {1.31, 1.29, 1.32, 1.28}, 1.0, 0.1).verdict == ClaimVerdict::fails);
    CHECK(decided(kind, {0.61, 0.59, 0.62, 0.58}, 1.0, 0.1).verdict == ClaimVerdict::fails);
    CHECK(decided(kind, {1.2, 0.8, 1.3, 0.9}, 1.0, 0.1).verdict == ClaimVerdict::not_shown);
  }
}

TEST_CASE("exact numbers and bounds need no test") {
  CHECK(decided(Kind::exact, {1.0, 1.05}, 1.0, 0.1).verdict == ClaimVerdict::holds);
  const judge::SignClaim wrong = decided(Kind::exact, {1.0, 1.05, 1.2}, 1.0, 0.1);
  CHECK(wrong.verdict == ClaimVerdict::fails);
  CHECK(wrong.mean.value == 1.2);
  CHECK(std::isnan(wrong.p));
  CHECK(decided(Kind::bound, {0.2, 1.0}, 0.0, 1.0).verdict == ClaimVerdict::holds);
  CHECK(decided(Kind::bound, {0.2, 1.01}, 0.0, 1.0).verdict == ClaimVerdict::fails);
  CHECK(decided(Kind::exact, {1.0, std::nan("")}, 1.0, 0.1).verdict == ClaimVerdict::not_testable);
}

TEST_CASE("laws and facts read texts") {
  const dataset::Dataset data = small_result();
  const auto law = [&](const std::string& placement) {
    return decide({.id = "X", .kind = Kind::law, .verdict = "verdict[placement=\"" + placement + "\"]"}, &data).verdict;
  };
  CHECK(law("pre") == ClaimVerdict::holds);
  CHECK(law("peri, qk_norm full") == ClaimVerdict::fails);
  const auto fact = [&](const std::string& text) {
    return decide({.id = "X", .kind = Kind::fact, .read = "kind[case=1]", .expected_text = text}, &data).verdict;
  };
  CHECK(fact("strong") == ClaimVerdict::holds);
  CHECK(fact("weak") == ClaimVerdict::fails);
  const auto stated = [](const std::string& number) {
    return decide({.id = "X", .kind = Kind::fact, .read = number, .expected = 54.87, .threshold = 0.05}, nullptr);
  };
  CHECK(stated("54.9").verdict == ClaimVerdict::holds);
  CHECK(stated("53.1").verdict == ClaimVerdict::fails);
  CHECK(decide({.id = "X", .kind = Kind::not_testable}, nullptr).verdict == ClaimVerdict::not_testable);
  CHECK_THROWS_AS(decide({.id = "X", .kind = Kind::law, .verdict = "kind[case=1]"}, &data), InputError);
}

TEST_CASE("a test over seeds needs one number per seed") {
  const dataset::Dataset data = small_result();
  CHECK_THROWS_AS(decide({.id = "X", .kind = Kind::positive, .read = "q[placement=pre]"}, &data), InputError);
  CHECK_THROWS_AS(decide({.id = "X", .kind = Kind::positive, .read = "rate[case=1]"}, &data), InputError);
}

}  // namespace
}  // namespace periscope::ledger
