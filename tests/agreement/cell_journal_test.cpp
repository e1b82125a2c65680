#include "experiments/command/cell_journal.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "experiments/common/over_seeds.h"
#include "experiments/converge/converge.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

Resolved resolved_with(int value) { return {.printed = {}, .hashed = Json{{"value", value}}}; }

std::size_t files_in(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a cell is found by the same run when it opens the journal again, and by no other") {
  const testing::TemporaryFolder folder;
  {
    CellJournal journal(folder.path(), "test", resolved_with(1));
    CHECK(journal.find("a") == nullptr);
    journal.keep("a", Json{{"x", 1}});
  }
  const CellJournal same(folder.path(), "test", resolved_with(1));
  REQUIRE(same.find("a") != nullptr);
  CHECK((*same.find("a"))["x"] == 1);
  CHECK(same.find("b") == nullptr);
  CHECK(CellJournal(folder.path(), "test", resolved_with(2)).find("a") == nullptr);
  CHECK(CellJournal(folder.path(), "other", resolved_with(1)).find("a") == nullptr);
  CHECK_MESSAGE(files_in(folder.path()) == 1, "journals without cells leave no file");
  same.remove();
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("numbers keep every bit") {
  const std::vector<double> values{0.0,
                                   -0.0,
                                   1.0 / 3.0,
                                   5e-324,
                                   -std::numeric_limits<double>::infinity(),
                                   std::nan(""),
                                   std::numeric_limits<double>::max()};
  const std::vector<double> back = values_of(bits_of(values));
  REQUIRE(back.size() == values.size());
  CHECK(std::memcmp(back.data(), values.data(), values.size() * sizeof(double)) == 0);
}

TEST_CASE("the keys of seeds differ in all that a result depends on") {
  StackSpec spec;
  RunOptions run;
  const std::string key = seeds_key("reading", spec, run);
  CHECK(seeds_key("reading", spec, run) == key);
  CHECK(seeds_key("paths", spec, run) != key);
  const auto differs = [&](const auto& change) {
    StackSpec other_spec = spec;
    RunOptions other_run = run;
    change(other_spec, other_run);
    return seeds_key("reading", other_spec, other_run) != key;
  };
  CHECK(differs([](StackSpec& s, RunOptions&) { s.model.norm_eps *= 2.0; }));
  CHECK(differs([](StackSpec&, RunOptions& r) { r.dtype = r.dtype == DType::f64 ? DType::f32 : DType::f64; }));
  CHECK(differs([](StackSpec&, RunOptions& r) { r.device = "reference"; }));
  CHECK(differs([](StackSpec&, RunOptions& r) { r.backward = !r.backward; }));
  CHECK_FALSE(differs([](StackSpec&, RunOptions& r) { r.threads = 7; }));
}

TEST_CASE("a function that is asked to stop says so, and judges nothing") {
  converge::ConvergeConfig config;
  config.base.model = {.layers = 1, .width = 16, .heads = 2, .kv_heads = 2, .head_dim = 8, .mlp_width = 16};
  config.base.init.scheme = InitScheme::lecun;
  config.base.input.tokens = 3;
  config.inputs = {InputKind::gaussian};
  config.placements = {*find_placement("pre"), *find_placement("peri")};
  config.widths = {16, 32, 48};
  config.width_seeds = 16;
  std::atomic<int> asked = 0;
  Progress patient(true, [&] { return false; });
  CHECK_FALSE(converge::run(config, patient).stopped_early);
  Progress impatient(true, [&] { return ++asked > 60; });  // in the second stack
  const converge::ConvergeResult result = converge::run(config, impatient);
  CHECK(result.stopped_early);
  REQUIRE(result.fits.size() == 2);
  CHECK(result.fits[0].noise_verdict == Verdict::not_checked);
}

}  // namespace periscope
