#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/soundness/search.h"
#include "tests/support/doctest.h"
#include "tests/support/threads.h"

/// The search for runs that pass a certified number: it finds none, and finds those of bounds that are too low.
namespace periscope::testing {
namespace {

std::vector<RunArithmetic> all_arithmetics() {
  std::vector<RunArithmetic> all;
  for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
    for (const NumberFormat& format : number_formats) all.push_back(run_arithmetic(kind, format));
  }
  return all;
}

soundness::SoundnessConfig options(std::uint32_t checkpoints, double scale = 1.0) {
  return {.seed = 3, .checkpoints = checkpoints, .arithmetics = all_arithmetics(), .scale = scale};
}

TEST_CASE("300 adversarial checkpoints in ten arithmetics: no certified number is passed") {
  const soundness::SoundnessResult r = soundness::run(options(300));
  for (const soundness::SpecimenResult& v : r.violations) MESSAGE(v.specimen.index, " ", v.breaches.front().what);
  CHECK(r.violated == 0);
  CHECK(r.checkpoints == 300);
  // A search in which little is certified or run would show nothing.
  CHECK(r.runs > 20 * 300);
  int certified = 0;
  for (const soundness::ArithmeticSummary& s : r.summaries) certified += s.all_certified;
  CHECK(certified > 60);
}

TEST_CASE("bounds that are a tenth too low are passed in every arithmetic that certifies anything") {
  const soundness::SoundnessResult r = soundness::run(options(200, 0.9));
  for (const soundness::ArithmeticSummary& s : r.summaries) {
    INFO(arithmetic_names[static_cast<std::size_t>(s.arithmetic.kind)], " ", s.arithmetic.stored.name);
    CHECK(s.violated >= s.all_certified);
  }
  CHECK(r.violations.size() == 10);
  CHECK(std::ranges::is_sorted(r.violations, {},
                               [](const soundness::SpecimenResult& v) { return v.specimen.parameters(); }));
  CHECK(soundness::report(r).find("passed a certified number") != std::string::npos);
}

TEST_CASE("the result is the same for any number of threads, and of one checkpoint alone") {
  const auto found = [&](int threads) {
    const Threads set(threads);
    const soundness::SoundnessResult r = soundness::run(options(40, 0.9));
    return std::pair{soundness::report(r), soundness::violations_json(r)};
  };
  const auto [text, one] = found(1);
  CHECK(found(3) == std::pair{text, one});
  soundness::SoundnessConfig alone = options(1, 0.9);
  alone.first = one[0]["index"];
  const soundness::SoundnessResult r = soundness::run(alone);
  CHECK(r.violated == 1);
  CHECK(soundness::violations_json(r)[0] == one[0]);
}

TEST_CASE("a violation has its checkpoint's weights, the worst run and the first five that passed a bound") {
  const soundness::SoundnessResult r = soundness::run(options(40, 0.9));
  REQUIRE_FALSE(r.violations.empty());
  const soundness::SpecimenResult& v = r.violations.front();
  const nlohmann::ordered_json json = soundness::violations_json(r)[0];
  CHECK(json["breaches"].size() == std::min<std::size_t>(5, v.breaches.size()));
  double worst = 0.0;
  for (const soundness::Breach& b : v.breaches) worst = std::max(worst, b.reached / b.bound);
  CHECK(json["worst"]["reached"].get<double>() / json["worst"]["bound"].get<double>() == worst);
  std::int64_t numbers = 0;
  for (const auto& [name, weight] : json["weights"].items()) {
    CHECK(weight["values"].size() == weight["shape"][0].get<std::size_t>() * weight["shape"][1].get<std::size_t>());
    numbers += static_cast<std::int64_t>(weight["values"].size());
  }
  CHECK(numbers == json["parameters"]);
  CHECK(soundness::report(r).find(fmt::format("--only {}", v.specimen.index)) != std::string::npos);
}

TEST_CASE("specimens: every family and placement, in and out of order, with the structure that is asked for") {
  std::set<std::string> families, placements, structures;
  for (std::uint32_t index = 0; index < 1500; ++index) {
    const soundness::Specimen s = soundness::generate_specimen(5, index, number_formats[2]);
    families.insert(s.family);
    placements.emplace(s.model.placement.name);
    for (const std::string& what : s.structure) structures.insert(what.substr(what.find(':') + 1));
    CHECK(s.model.heads % s.model.kv_heads == 0);
    CHECK(s.tokens >= 1);
  }
  for (const std::string& family : soundness::specimen_families()) CHECK(families.contains(family));
  for (const Placement& p : placement_table()) CHECK(placements.contains(std::string(p.name)));
  for (const char* what : {" rank one", " rows that cancel", " constant rows", " subnormal", " cancels",
                           " an entry near the largest number", " a huge row", "gate = up", "k = q"}) {
    CHECK_MESSAGE(structures.contains(what), what);
  }
  const soundness::Specimen again = soundness::generate_specimen(5, 17, number_formats[2]);
  const soundness::Specimen other = soundness::generate_specimen(6, 17, number_formats[2]);
  const soundness::Specimen same = soundness::generate_specimen(5, 17, number_formats[2]);
  CHECK(again.structure == same.structure);
  CHECK(again.numbers.begin()->second.values == same.numbers.begin()->second.values);
  CHECK((again.numbers.size() != other.numbers.size() ||
         again.numbers.begin()->second.values != other.numbers.begin()->second.values));
}

}  // namespace
}  // namespace periscope::testing
