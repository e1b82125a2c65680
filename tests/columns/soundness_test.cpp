#include "experiments/studies/certify/soundness/soundness.h"

#include <limits>

#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of soundness: every column from the raw numbers.
namespace periscope::testing::soundness_columns {

TEST_CASE("soundness: every column from raw numbers") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Irregular numbers;
  soundness::SoundnessResult r;
  r.config = {.seed = 17, .checkpoints = 1000, .arithmetics = {}, .scale = numbers.next()};
  r.checkpoints = 19;
  r.runs = 23;
  r.violated = 29;
  r.seconds = numbers.next();
  for (int i = 0; i < 2; ++i) {
    soundness::ArithmeticSummary& s = r.summaries.emplace_back();
    s.arithmetic = run_arithmetic(i == 0 ? Arithmetic::mixed : Arithmetic::pure, number_formats[i == 0 ? 1 : 3]);
    s.checkpoints = 31 + i;
    s.stream_certified = 41 + i;
    s.all_certified = 51 + i;
    s.violated = 61 + i;
    s.runs = 71 + i;
    for (const std::size_t k : {0U, 4U}) {
      s.tightness[k] = {.checkpoints = 81 + i,
                        .median = numbers.next(),
                        .largest = numbers.next(),
                        .tightest = 91U + static_cast<unsigned>(i)};
    }
  }
  ExpectedColumns expected(soundness::columns(r, nlohmann::ordered_json::object()));
  expected.numbers("seed", {17}, "seed");
  expected.numbers("scale", {r.config.scale}, "scale");
  expected.numbers("total_checkpoints", {19}, "checkpoints");
  expected.numbers("total_runs", {23}, "runs");
  expected.numbers("total_violated", {29}, "violated");
  expected.numbers("seconds", {r.seconds}, "seconds");
  const std::string each = "arithmetics/*/";
  expected.words("arithmetic", {"mixed", "pure"}, each + "arithmetic");
  expected.words("format", {"bf16", "fp8_e5m2"}, each + "format");
  expected.numbers("checkpoints", {31, 32}, each + "checkpoints");
  expected.numbers("stream_certified", {41, 42}, each + "stream_certified");
  expected.numbers("all_certified", {51, 52}, each + "all_certified");
  expected.numbers("violated", {61, 62}, each + "violated");
  expected.numbers("runs", {71, 72}, each + "runs");
  expected.words("class", {"stream", "branch", "attention", "scores", "mlp", "head", "inside"});
  const auto check = [&](const char* name, const auto& get) {
    std::vector<double> values;
    for (const soundness::ArithmeticSummary& s : r.summaries) {
      for (std::size_t k = 0; k < s.tightness.size(); ++k) {
        values.push_back(k == 0 || k == 4 ? get(s.tightness[k]) : nan);
      }
    }
    expected.numbers(std::string("tightness_") + name, values, each + "tightness/*/" + name);
  };
  check("checkpoints", [](const soundness::Tightness& t) { return static_cast<double>(t.checkpoints); });
  check("median", [](const soundness::Tightness& t) { return t.median; });
  check("largest", [](const soundness::Tightness& t) { return t.largest; });
  check("tightest", [](const soundness::Tightness& t) { return static_cast<double>(t.tightest); });
  expected.complete();
}

}  // namespace periscope::testing::soundness_columns
