#include "tests/soundness/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/soundness/specimen.h"
#include "tests/support/doctest.h"
#include "tests/support/threads.h"

namespace periscope::testing {
namespace {

using soundness::SpecimenResult;

soundness::SoundnessConfig config(std::uint32_t checkpoints, double scale = 1.0) {
  std::vector<RunArithmetic> all;
  for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
    for (const NumberFormat& format : number_formats) all.push_back(run_arithmetic(kind, format));
  }
  return {.seed = 3, .checkpoints = checkpoints, .arithmetics = all, .scale = scale};
}

TEST_CASE("300 adversarial checkpoints in ten arithmetics: runs approach every class of bounds and exceed none") {
  const std::vector<SpecimenResult> results = soundness::run(config(300));
  int runs = 0, certified = 0;
  std::array<double, soundness::class_count> nearest{};
  for (const SpecimenResult& r : results) {
    CHECK_MESSAGE(!r.violated(), r.violation);
    runs += r.runs;
    certified += static_cast<int>(r.all_certified);
    for (std::size_t c = 0; c < nearest.size(); ++c) nearest[c] = std::fmax(nearest[c], r.tightness[c]);
  }
  // The search is meaningful only if many checkpoints are certified and run.
  CHECK(runs > 20 * 300);
  CHECK(certified > 60);
  for (std::size_t c = 0; c < nearest.size(); ++c) {
    CHECK_MESSAGE(nearest[c] > 0.97, theory::signal_class_names[c], ": largest ratio to the bound ", nearest[c]);
  }
}

TEST_CASE("bounds that are a tenth too low are exceeded in every arithmetic with certified checkpoints") {
  const soundness::SoundnessConfig lowered = config(200, 0.9);
  const std::vector<SpecimenResult> results = soundness::run(lowered);
  std::map<std::size_t, int> surplus;  // how many more checkpoints violate a bound than are certified
  for (std::size_t i = 0; i < results.size(); ++i) {
    const SpecimenResult& r = results[i];
    surplus[i % lowered.arithmetics.size()] += static_cast<int>(r.violated()) - static_cast<int>(r.all_certified);
    if (!r.violated()) continue;
    CHECK(r.excess > 1.0);
    CHECK(r.violation.find(fmt::format("--seed 3 --only {}:", i)) != std::string::npos);
  }
  for (const auto& entry : surplus) CHECK_MESSAGE(entry.second >= 0, entry.first);
}

TEST_CASE("the result of a checkpoint does not depend on the number of threads or on other checkpoints") {
  const auto violations = [](const soundness::SoundnessConfig& c, int threads) {
    const Threads set(threads);
    std::vector<std::string> all;
    for (const SpecimenResult& r : soundness::run(c)) all.push_back(r.violation);
    return all;
  };
  const std::vector<std::string> one = violations(config(40, 0.9), 1);
  CHECK(violations(config(40, 0.9), 3) == one);
  soundness::SoundnessConfig alone = config(1, 0.9);
  alone.first = static_cast<std::uint32_t>(std::ranges::find_if(one, [](const std::string& v) { return !v.empty(); }) -
                                           one.begin());
  CHECK(violations(alone, 3) == std::vector{one.at(alone.first)});
}

TEST_CASE("specimens cover every family, placement and structure of weights") {
  std::set<std::string> families, placements, structures;
  for (std::uint32_t index = 0; index < 1500; ++index) {
    const soundness::Specimen s = soundness::generate_specimen(5, index, fp16);
    families.insert(s.family);
    placements.emplace(s.model.placement.name);
    for (const std::string& what : s.structure) structures.insert(what.substr(what.find(':') + 1));
  }
  for (const std::string& family : soundness::specimen_families()) CHECK(families.contains(family));
  for (const Placement& p : placement_table()) CHECK(placements.contains(std::string(p.name)));
  for (const char* what : {" rank one", " rows that cancel", " constant rows", " subnormal", " cancels",
                           " an entry near the largest number", " a huge row", "gate = up", "k = q"}) {
    CHECK_MESSAGE(structures.contains(what), what);
  }
}

}  // namespace
}  // namespace periscope::testing
