#include "experiments/studies/verify/verify.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "experiments/engine/result/serialize.h"
#include "sim/base/error.h"

#include "tests/support/threads.h"

/// `verify` finds what is there to find, and says the same each time.
namespace periscope::testing {
namespace {

verify::VerifyResult small_run(double scale, int cases = 400) {
  stacks::Progress progress;
  return verify::run({.seed = 1, .cases = cases, .scale = scale, .starts = 1}, progress);
}

/// Counterexamples to statements that should hold.
std::vector<verify::Counterexample> violations_of(const verify::VerifyResult& r) {
  std::vector<verify::Counterexample> all;
  for (const verify::StatementResult& s : r.statements) {
    if (s.is_violated()) all.push_back(*s.counterexample);
  }
  return all;
}

TEST_CASE("the generator covers what it says") {
  std::set<std::string> placements;
  std::set<MlpKind> mlps;
  std::set<int> widths;
  int layer = 0, many_tokens = 0, biased = 0, negative = 0, final_norm = 0, unembedding = 0;
  double smallest = HUGE_VAL, largest = 0.0;
  for (std::uint32_t id = 0; id < 3000; ++id) {
    const verify::BoundCase c = verify::generate_case(0, id);
    REQUIRE_FALSE(verify::defect_of(c));
    const SublayerRule rule = c.rule();
    placements.insert(std::string(rule.norm_a ? "A" : "") + (rule.norm_b ? "B" : "") + (rule.norm_c ? "C" : ""));
    mlps.insert(c.mlp());
    widths.insert(c.width());
    layer += static_cast<int>(c.norm() == NormKind::layer);
    many_tokens += static_cast<int>(c.tokens() > 1);
    biased += static_cast<int>(c.has("down_bias"));
    final_norm += static_cast<int>(c.has("final_norm.gain"));
    unembedding += static_cast<int>(c.has("unembedding"));
    for (const double g : c.values("norm_b.gain")) negative += static_cast<int>(g < 0.0);
    double square = 0.0;
    for (const double w : c.values("down")) square += w * w;
    if (square > 0.0) {
      smallest = std::min(smallest, std::sqrt(square));
      largest = std::max(largest, std::sqrt(square));
    }
  }
  CHECK(placements == std::set<std::string>{"A", "AB", "C", "B", "AC", "ABC"});
  CHECK(mlps.size() == mlp_kind_names.size());
  CHECK(widths.size() == 64);
  CHECK(largest / smallest > 1e12);
  for (const int count : {layer, many_tokens, biased, negative, final_norm, unembedding}) CHECK(count > 300);
}

TEST_CASE("every bound holds, and every false claim is refuted") {
  stacks::Progress progress;
  const verify::VerifyResult r = verify::run({.seed = 1, .cases = 400, .scale = 1.0, .starts = 8}, progress);
  CHECK(r.passed());
  CHECK(violations_of(r).empty());
  for (const verify::StatementResult& s : r.statements) CHECK(s.cases > 20);
  for (const verify::StatementResult& s : r.statements) {
    CAPTURE(std::string(s.statement->id));
    CHECK(s.passed());
  }
  for (const verify::BoundAttackResult& a : r.attacks) {
    CAPTURE(a.name);
    CHECK(a.share() <= 1.0 + 1e-9);
    CHECK(a.close_enough());
  }
}

TEST_CASE("nine tenths of the sharp bounds do not hold") {
  verify::VerifyResult r = small_run(0.9);
  CHECK_FALSE(r.passed());
  std::set<std::string_view> broken;
  for (const verify::Counterexample& v : violations_of(r)) broken.insert(v.statement->id);
  for (const char* id : {"T14a", "T14b", "T14c", "T14d", "T16"}) CHECK(broken.contains(id));
  CHECK(verify::table(r).find("with --out DIR") != std::string::npos);
  r.config.out = "out";
  CHECK(verify::table(r).find("with --out DIR") == std::string::npos);
  for (const char* id : {"C.1", "C.2", "C.2-whole", "C.3", "C.3-whole", "T15"}) CHECK_FALSE(broken.contains(id));
}

TEST_CASE("a third of the paper's bounds does not hold, three eighths do") {
  for (const auto& [scale, breaks] : {std::pair{0.33, true}, std::pair{0.36, false}}) {
    const verify::VerifyResult r = small_run(scale, 2000);
    bool broken = false;
    for (const verify::Counterexample& v : violations_of(r)) broken = broken || v.statement->id == "C.2-whole";
    CHECK(broken == breaks);
  }
}

TEST_CASE("the result does not depend on the number of threads") {
  std::vector<nlohmann::json> documents;
  for (const int count : {1, 3}) {
    const Threads threads(count);
    documents.emplace_back(dataset::json_of(verify::dataset_of(small_run(0.9))));
  }
  const bool same = documents[0] == documents[1];
  CHECK_MESSAGE(same, nlohmann::json::diff(documents[0], documents[1]).dump());
}

TEST_CASE("a violation is small, still a violation, and replayed from its file") {
  for (const verify::Counterexample& v : violations_of(small_run(0.9))) {
    CAPTURE(v.statement->id);
    REQUIRE(v.statement->applies(v.found));
    CHECK(v.is_broken(0.9));
    CHECK(v.found.width() <= 4);
    CHECK(v.found.tokens() == 1);
    CHECK(v.found.units() == 1);
    const std::string path = "verify_test_case.json";
    std::ofstream(path) << verify::case_json(v.found).dump();
    const study::Outcome again = verify::replay({.scale = 0.9, .replay = path});
    CHECK(again.document["case"] == verify::case_json(v.found));
    CHECK(again.code == ExitCode::check_failed);
    CHECK(verify::replay({.replay = path}).code == ExitCode::ok);
    const auto& lines = again.document["statements"];
    const auto o = std::ranges::find_if(lines, [&](const auto& line) { return line["id"] == v.statement->id; });
    REQUIRE(o != lines.end());
    CHECK((*o)["broken"] == true);
    CHECK((*o)["measured"] == v.measured);
    CHECK((*o)["bound"] == v.bound);
    (void)std::remove(path.c_str());
  }
}

TEST_CASE("a case that leaves the range of f64 is not judged, although no statement measures it") {
  verify::BoundCase c = verify::plain_case({.norm_a = false}, 2);
  c.set("x", {1.0, 0.0}, 2);
  c.set("up", {1.5e308, 0.0, 1.5e308, 0.0}, 2);  // |h| overflows, but not its entries nor the gradient's norm
  c.set("down", {0.0, 0.0, 0.0, 0.0}, 2);
  for (const verify::StatementOutcome& o : verify::check_statements(c, verify::evaluate(c))) {
    CHECK(std::isfinite(o.measured));
  }
  const std::string path = "verify_test_range.json";
  std::ofstream(path) << verify::case_json(c).dump();
  CHECK_THROWS_AS((void)verify::replay({.replay = path}), InputError);
  (void)std::remove(path.c_str());
}

TEST_CASE("the smallest width at which the reviews' bound breaks is 3 for the whole matrix and 4 for an entry") {
  for (const auto& [id, width] : {std::pair{"G4-whole", 3}, std::pair{"G4", 4}}) {
    for (const int d : {width - 1, width}) CHECK((verify::statement(id).limit(d) > 1.0) == (d == width));
  }
}

TEST_CASE("a planted wrong bound is caught") {
  // T14b without its square root of two, as if |p - y| were at most 1 - p_y, and T16 without the stream
  const verify::Statement& sharp = verify::statement("T14b");
  const verify::Statement& growth = verify::statement("T16");
  int caught_sharp = 0, caught_growth = 0, whole = 0;
  for (std::uint32_t id = 0; id < 2000; ++id) {
    const verify::BoundCase c = verify::generate_case(2, id);
    const verify::Evaluation e = verify::evaluate(c);
    if (sharp.applies(c)) {
      verify::StatementOutcome o = sharp.check(c, e);
      whole += static_cast<int>(o.violates(1.0));
      o.bound /= std::sqrt(2.0);
      caught_sharp += static_cast<int>(o.violates(1.0));
    }
    if (growth.applies(c)) {
      verify::StatementOutcome o = growth.check(c, e);
      o.bound = HUGE_VAL;
      for (const verify::TokenTerms& t : e.tokens) o.bound = std::min(o.bound, t.branch_rms);
      caught_growth += static_cast<int>(o.violates(1.0));
    }
  }
  CHECK(whole == 0);
  CHECK(caught_sharp > 20);
  CHECK(caught_growth > 20);
}

TEST_CASE("1 - p_y keeps its digits where p_y is nearly 1") {
  verify::BoundCase c = verify::plain_case({.norm_a = false}, 2);
  c.set("x", {40.0, 0.0}, 2);
  c.set("up", {1.0, 0.0}, 2);
  c.set("down", {0.0, 0.0});
  const verify::Evaluation e = verify::evaluate(c);
  CHECK(e.tokens[0].path.wrong_probability == doctest::Approx(std::exp(-40.0)).epsilon(1e-14));
  CHECK(e.tokens[0].hidden == 40.0);
}

TEST_CASE("a wrong gradient is caught") {
  const verify::BoundCase c = [] {
    verify::BoundCase b = verify::plain_case({}, 2);
    b.set("x", {0.0, 1.0}, 2);
    b.set("up", {0.0, 1.0}, 2);
    b.set("down", {0.0, 0.0});
    return b;
  }();
  verify::Evaluation e = verify::evaluate(c);
  const auto holds = [&](const char* id) { return !verify::statement(id).check(c, e).violates(1.0); };
  for (const char* id : {"C.1", "T14a", "T14a-entry"}) CHECK(holds(id));
  e.gradient[0] *= 1.0 + 1e-12;
  e.gradient_norm *= 1.0 + 1e-12;
  for (const char* id : {"C.1", "T14a", "T14a-entry"}) CHECK_FALSE(holds(id));
  e.gradient[0] = e.gradient_norm = std::nan("");
  for (const char* id : {"C.1", "T14a", "T14a-entry"}) CHECK_FALSE(holds(id));
}

TEST_CASE("shrinking takes away what does not matter and keeps what does") {
  const verify::BoundCase found = verify::generate_case(0, 94);
  const auto wide = [](const verify::BoundCase& c) { return c.width() >= 3 && c.values("down").back() > 0.5; };
  verify::BoundCase start = found;
  start.parameters.at("down").values.back() = 7.123;
  REQUIRE(wide(start));
  const verify::BoundCase small = verify::shrink(start, wide);
  CHECK(wide(small));
  CHECK(small.width() == 3);
  CHECK(small.units() == 1);
  CHECK(small.tokens() == 1);
  CHECK(small.values("down").back() == 1.0);
  // Every other parameter is gone or plain.
  for (const verify::ParameterKind& kind : verify::parameter_kinds()) {
    CAPTURE(std::string(kind.name));
    CHECK((!kind.optional || !small.has(kind.name)));
    if (kind.name == "down") continue;
    for (const double v : small.values(kind.name)) CHECK(v == kind.plain);
  }
}

TEST_CASE("every case on the way of shrinking is a whole one: biases and norms lose the same features") {
  int biased = 0;
  for (std::uint32_t id = 0; id < 60; ++id) {
    const verify::BoundCase start = verify::generate_case(0, id);
    if (!start.has("down_bias")) continue;
    ++biased;
    const auto keeps_bias = [](const verify::BoundCase& c) {
      CHECK_FALSE(verify::defect_of(c));
      return c.has("down_bias");
    };
    const verify::BoundCase small = verify::shrink(start, keeps_bias, 300);
    CHECK(small.values("down_bias").size() == static_cast<std::size_t>(small.width()));
  }
  CHECK(biased >= 5);
}

TEST_CASE("a ratio is counted in the bin around it, upper ends included") {
  const auto bin_of = [](double ratio, int bins_per_decade) {
    verify::Tally t(bins_per_decade);
    t.add(0, {.measured = ratio, .bound = 1.0}, false);
    return static_cast<int>(std::ranges::find(t.histogram, 1U) - t.histogram.begin());
  };
  for (const double ratio : {1e-11, 0.04, 0.5, 0.999, 3.0}) {
    const double centre = verify::Tally::lowest + (bin_of(ratio, 600) + 0.5) / 600;
    CHECK(std::abs(std::log10(ratio) - centre) <= 0.5 / 600 * (1 + 1e-9));
  }
  CHECK(bin_of(1.0, 1) == 11);  // (0.1, 1]
}

TEST_CASE("tallies") {
  verify::Tally t;
  const auto add = [&](std::uint64_t id, const verify::StatementOutcome& o) { t.add(id, o, o.violates(1.0)); };
  add(1, {.measured = 0.5, .bound = 1.0});
  add(2, {.measured = 0.5, .bound = 1.0});
  add(3, {.measured = 2.0, .bound = 1.0});
  add(4, {.measured = 2.0, .bound = 1.0});
  add(5, {.measured = 0.0, .bound = 0.0});
  add(6, {.measured = 1.0, .bound = HUGE_VAL});
  add(8, {.measured = 1.0, .bound = 1e-3, .rounding = 2.0});
  add(9, {.measured = std::nan(""), .bound = 1.0});
  CHECK(t.cases == 8);
  CHECK(t.trivial == 2);
  CHECK(t.ratios() == 5);
  CHECK(t.violations == 3);
  CHECK(t.first_violation == 3);
  CHECK(t.largest == 2.0);
  CHECK(t.largest_case == 3);
  CHECK(t.quantile(0.4) == doctest::Approx(0.5).epsilon(0.003));
  verify::Tally coarse(30);
  for (int k = 0; k < 100; ++k)
    coarse.add(10, {.measured = std::pow(10.0, -1.0 + (k + 0.5) / 3000.0), .bound = 1.0}, false);
  CHECK(coarse.quantile(0.9) == doctest::Approx(std::pow(10.0, -1.0 + 0.9 / 30.0)).epsilon(1e-3));  // of one bin
}

TEST_CASE("massive activations: linear growth without a final norm, a ceiling with one") {
  // Over three decades a stack whose loss is not yet saturated at their beginning had an exponent of 1.017 here.
  for (const std::uint64_t seed : {6U, 8U, 14U}) CHECK(verify::sweep_massive(seed)[0].grows());
  for (const verify::MassiveCurve& c : verify::sweep_massive(4)) {
    CAPTURE(c.placement);
    const bool is_free = c.placement == "pre" && !c.final_norm;
    CHECK(c.grows() == is_free);
    CHECK(c.is_bounded() == !is_free);
    CHECK(c.passed());
    CHECK(c.largest_ratio <= 1.0 + 1e-9);
    // Quantiles 0.16, 0.5 and 0.84 of 32 different stacks.
    for (std::size_t k = 0; k < c.gradient.size(); ++k) {
      CAPTURE(k);
      CHECK(c.low[k] < c.gradient[k]);
      CHECK(c.gradient[k] < c.high[k]);
    }
    CHECK(c.gradient.back() / c.gradient.front() > (is_free ? 1e5 : 0.5));
  }
}

TEST_CASE("T16 is met with equality by a branch and a bias along the stream: rms(bias), not its length") {
  const std::vector<double> along{1.0, -1.0, 1.0, -1.0};
  verify::BoundCase c = verify::plain_case({.norm_b = true}, 4);
  c.set("norm", {static_cast<double>(NormKind::layer)});
  c.set("x", {2.0, -2.0, 2.0, -2.0}, 4);
  c.set("up", along, 4);
  c.set("down", along);
  c.set("norm_b.bias", {0.5, -0.5, 0.5, -0.5});
  const verify::StatementOutcome o = verify::statement("T16").check(c, verify::evaluate(c));
  CHECK(o.measured == doctest::Approx(3.5).epsilon(1e-14));
  CHECK(o.bound == doctest::Approx(2.0 + 1.0 + 0.5).epsilon(1e-14));
}

TEST_CASE("T16 is met with equality by aligned weights at any depth") {
  CHECK(verify::grow_aligned(20, 6, 0.7).reached == doctest::Approx(1.0).epsilon(1e-13));
}

}  // namespace
}  // namespace periscope::testing
