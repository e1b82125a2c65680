#include "experiments/studies/certify/soundness/soundness.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/model/parameters.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of soundness: every column from the raw numbers.
namespace periscope::testing::soundness_columns {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// With six breaches, of which the last but one is the worst.
soundness::SpecimenResult planted_violation(Irregular& numbers, unsigned i) {
  soundness::SpecimenResult v;
  v.specimen.seed = 17;
  v.specimen.index = 100 + i;
  v.specimen.family = i == 0 ? "gemma2" : "any";
  v.specimen.model.placement = placement_table()[i];
  v.specimen.model.layers = 2 + static_cast<int>(i);
  v.specimen.model.width = 5 + static_cast<int>(i);
  v.specimen.numbers[matrix_id(0, Weight::q)] = {.rows = 1, .cols = 2, .values = numbers.next(2)};
  v.specimen.structure = {"q: spikes", "k = q"};
  v.arithmetic = run_arithmetic(i == 0 ? Arithmetic::mixed : Arithmetic::pure, number_formats[i == 0 ? 1 : 3]);
  v.knob = i == 0 ? soundness::Knob::gains : soundness::Knob::head;
  v.factor = numbers.next();
  for (int k = 0; k < 6; ++k) {
    soundness::Breach& b = v.breaches.emplace_back();
    b.what = "what " + std::to_string(k);
    b.bound = numbers.next();
    b.reached = (k == 4 ? 10.0 : 2.0) * b.bound;
    b.emulation = {.arithmetic = v.arithmetic, .norm = NormForm::accumulated, .fused = k == 4};
    b.input = "tokens " + std::to_string(k);
  }
  if (i == 1) v.breaches[2].reached = nan;
  return v;
}

void check_violations(ExpectedColumns& expected, const std::vector<soundness::SpecimenResult>& all) {
  const std::string each = "violations/*/";
  const auto check = [&](const std::string& name, const auto& get) {
    std::vector<double> values;
    for (const soundness::SpecimenResult& v : all) values.push_back(get(v));
    expected.numbers("violation_" + name, values, each + name);
  };
  expected.numbers("violation_index", {100, 101}, each + "index");
  expected.numbers("violation_seed", {17, 17}, each + "seed");
  expected.words("violation_family", {"gemma2", "any"}, each + "family");
  expected.words("violation_placement",
                 {std::string(placement_table()[0].name), std::string(placement_table()[1].name)}, each + "placement");
  expected.numbers("violation_layers", {2, 3}, each + "layers");
  expected.numbers("violation_width", {5, 6}, each + "width");
  expected.numbers("violation_parameters", {2, 2}, each + "parameters");
  expected.words("violation_arithmetic", {"mixed", "pure"}, each + "arithmetic");
  expected.words("violation_format", {"bf16", "fp8_e5m2"}, each + "format");
  expected.words("violation_structure", {"q: spikes; k = q", "q: spikes; k = q"}, each + "structure");
  expected.words("violation_knob", {"gains", "head"}, each + "knob");
  check("factor", [](const soundness::SpecimenResult& v) { return v.factor; });
  // The worst run.
  const std::string worst = each + "worst/";
  const std::vector<soundness::Breach> of{all[0].breaches[4], all[1].breaches[4]};
  expected.words("violation_what", {"what 4", "what 4"}, worst + "what");
  expected.numbers("violation_bound", {of[0].bound, of[1].bound}, worst + "bound");
  expected.numbers("violation_reached", {of[0].reached, of[1].reached}, worst + "reached");
  expected.words("violation_run",
                 {"mixed bf16, sums sequential, norms accumulated, fused products",
                  "pure fp8_e5m2, sums sequential, norms accumulated, fused products"},
                 worst + "run");
  expected.words("violation_input", {"tokens 4", "tokens 4"}, worst + "input");
  // JSON texts.
  std::vector<std::string> breaches, weights;
  for (const soundness::SpecimenResult& v : all) {
    ExpectedColumns::Json listed = ExpectedColumns::Json::array();
    for (std::size_t k = 0; k < 5; ++k) {
      const soundness::Breach& b = v.breaches[k];
      ExpectedColumns::Json& one = listed.emplace_back();
      one["what"] = "what " + std::to_string(k);
      one["bound"] = b.bound;
      if (std::isnan(b.reached)) {
        one["reached"] = "not finite";
      } else {
        one["reached"] = b.reached;
      }
      one["run"] = std::string(&v == all.data() ? "mixed bf16" : "pure fp8_e5m2") +
                   ", sums sequential, norms accumulated" + (k == 4 ? ", fused products" : "");
      one["input"] = "tokens " + std::to_string(k);
    }
    breaches.push_back(listed.dump());
    ExpectedColumns::Json named;
    const auto& [id, numbers] = *v.specimen.numbers.begin();
    named[name_of(id)] = {{"shape", {1, 2}}, {"values", numbers.values}};
    weights.push_back(named.dump());
  }
  expected.words("violation_breaches", breaches, each + "breaches");
  expected.words("violation_weights", weights, each + "weights");
}

}  // namespace

TEST_CASE("soundness: every column from raw numbers") {
  Irregular numbers;
  soundness::SoundnessResult r;
  r.config = {.seed = 17, .checkpoints = 1000, .arithmetics = {}, .scale = numbers.next()};
  r.checkpoints = 19;
  r.runs = 23;
  r.violated = 29;
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
  for (unsigned i = 0; i < 2; ++i) r.violations.push_back(planted_violation(numbers, i));
  ExpectedColumns expected(soundness::schema(), soundness::dataset_of(r));
  expected.numbers("seed", {17}, "seed");
  expected.numbers("scale", {r.config.scale}, "scale");
  expected.numbers("total_checkpoints", {19}, "checkpoints");
  expected.numbers("total_runs", {23}, "runs");
  expected.numbers("total_violated", {29}, "violated");
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
  check_violations(expected, r.violations);
  expected.complete();
}

}  // namespace periscope::testing::soundness_columns
