#include "experiments/ledger/reading.h"

#include "sim/base/error.h"
#include "tests/ledger/results.h"
#include "tests/support/doctest.h"

namespace periscope::ledger {
namespace {

std::vector<double> values(const std::string& expression) { return evaluate(expression, small_result()).values; }

void check_values(const std::string& expression, const std::vector<double>& expected) {
  CAPTURE(expression);
  const std::vector<double> found = values(expression);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

TEST_CASE("expressions follow the usual precedence") {
  check_values("1 + 2 * 3 - 8 / 4", {5.0});
  check_values("-(1 + 2) * 3", {-9.0});
  check_values("sqrt(8 / 3) + 1", {std::sqrt(8.0 / 3.0) + 1.0});
  check_values("log2(8) + exp(log(2.5e-1)) + abs(-2)", {5.25});
  check_values("8 / 2 / 2 - 1 - 1", {0.0});
}

TEST_CASE("columns are read at labels, per seed") {
  check_values("q[placement=pre, depth=2]", {3.0, 3.1, 3.2});
  check_values("q[placement=\"peri, qk_norm full\", depth=0]", {2.0, 2.1, 2.2});
  check_values("q[placement=pre, depth=-1] / q[placement=pre, depth=0]", {4.0, 4.1 / 1.1, 4.2 / 1.2});
  CHECK(evaluate("q[placement=pre, depth=2]", small_result()).seeds == 3);
  CHECK(evaluate("rate[case=1]", small_result()).seeds == 0);
}

TEST_CASE("a text column stands for its dimension") {
  check_values("rate[kind=strong]", {2.0});
  CHECK(text_at("verdict[placement=\"peri, qk_norm full\"]", small_result()) == "disagrees");
}

TEST_CASE("reductions skip missing entries") {
  const std::string peri = "q[placement=\"peri, qk_norm full\"]";
  check_values("max(" + peri + ")", {6.0, 6.1, 6.2});
  check_values("last(" + peri + ")", {6.0, 6.1, 6.2});
  check_values("first(" + peri + ")", {2.0, 2.1, 2.2});
  check_values("mean(" + peri + ")", {4.0, 4.1, 4.2});
  check_values("slope(" + peri + ")", {2.0, 2.0, 2.0});
  check_values("min(q[placement=pre, depth=1:2])", {2.0, 2.1, 2.2});
  check_values("max(q[placement=pre, depth=-2:-1] - q[placement=pre, depth=0])", {3.0, 3.0, 3.0});
}

TEST_CASE("wrong expressions name what is wrong") {
  const auto rejects = [](const std::string& expression, const std::string& word) {
    CAPTURE(expression);
    CHECK_THROWS_WITH_AS(values(expression), doctest::Contains(word.c_str()), Error);
  };
  rejects("1 +", "a number, a column or a function");
  rejects("(1", "')'");
  rejects("1 2", "an operator or the end");
  rejects("median(1)", "unknown function median");
  rejects("p[placement=pre]", "no column p");
  rejects("q[placement=pree, depth=0]", "expected one of pre");
  rejects("q[placement=pre, depth=4]", "depth = 4");
  rejects("q[layer=1]", "expected one of its dimensions");
  rejects("q", "expected a label of");
  rejects("q[placement=pre, depth=2:9]", "positions");
  rejects("verdict[placement=pre]", "found text");
  rejects("q[placement=pre, depth=2, depth=1]", "one label of depth");
  rejects("rate[case=1, kind=strong]", "one label of case");
  rejects("q[placement=pre, depth=2, seed=0:1]", "seed");
  rejects("q[placement=pre, depth=]", "dimension=label");
  rejects(std::string(200, '(') + "1" + std::string(200, ')'), "at most 100 nested");
  rejects(std::string(200'000, '-') + "1", "at most 100 nested");
  CHECK_THROWS_AS(text_at("rate[case=0]", small_result()), InputError);
}

}  // namespace
}  // namespace periscope::ledger
