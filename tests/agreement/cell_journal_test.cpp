#include "experiments/engine/run/cell_journal.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "experiments/engine/run/cached_reading.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/stacks.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

config::Resolved resolved_with(int value) { return {.printed = {}, .hashed = Json{{"value", value}}}; }

std::size_t files_in(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

/// Asks to stop in the second stack, whose steps have another placement's name.
class Impatient : public stacks::Progress {
 public:
  void step(const std::string& label, int /*count*/) override {
    const std::string placement = label.substr(0, label.find(' '));
    if (first_.empty()) first_ = placement;
    if (placement != first_) second_ = true;
  }
  [[nodiscard]] bool stop_requested() const override { return second_; }

 private:
  std::string first_;
  std::atomic<bool> second_ = false;
};

}  // namespace

TEST_CASE("a cell is found by the same run when it opens the journal again, and by no other") {
  const testing::TemporaryFolder folder;
  {
    stacks::CellJournal journal(folder.path(), "test", resolved_with(1));
    CHECK_FALSE(journal.find("a"));
    journal.keep("a", Json{{"x", 1}});
  }
  const stacks::CellJournal same(folder.path(), "test", resolved_with(1));
  REQUIRE(same.find("a"));
  CHECK(same.find("a")->at("x").whole(0, 9) == 1);
  CHECK_FALSE(same.find("b"));
  CHECK_FALSE(stacks::CellJournal(folder.path(), "test", resolved_with(2)).find("a"));
  CHECK_FALSE(stacks::CellJournal(folder.path(), "other", resolved_with(1)).find("a"));
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
  const std::vector<double> back = stacks::values_of(stacks::bits_of(values));
  REQUIRE(back.size() == values.size());
  CHECK(std::memcmp(back.data(), values.data(), values.size() * sizeof(double)) == 0);
}

TEST_CASE("digits that are no numbers are refused") {
  const std::string good = stacks::bits_of(std::vector{1.0, 2.0});
  for (const std::string& bad : {good.substr(1), good + "0", "g" + good.substr(1), "A" + good.substr(1),
                                 " " + good.substr(1), "-" + good.substr(1), std::string("0x3ff0000000000")}) {
    CHECK_THROWS_AS_MESSAGE(stacks::values_of(bad), std::invalid_argument, bad);
  }
  CHECK(stacks::values_of("").empty());
}

TEST_CASE("a part of a record is read strictly, and named where it is not as expected") {
  const Json record{{"whole", 3},     {"huge", 1e300},  {"text", "a"}, {"bits", "3ff0000000000000"},
                    {"list", {1, 2}}, {"null", nullptr}};
  const stacks::JournalPart part(record, "file: record 2");
  CHECK(part.at("whole").whole(3, 3) == 3);
  CHECK(part.at("bits").values(1) == std::vector{1.0});
  CHECK(part.at("list").entries(2).at(1).whole(2, 2) == 2);
  CHECK(std::isnan(part.at("null").number()));
  const auto message = [](const auto& read) {
    try {
      read();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto refused = [&](const auto& read, const std::string& begin) {
    const std::string found = message(read);
    CHECK_MESSAGE(found.starts_with("file: record 2" + begin), found);
  };
  refused([&] { (void)part.at("none"); }, ": found an object, expected an object with \"none\"");
  refused([&] { (void)part.at(std::size_t{0}); }, ": found an object, expected a list of 1 or more");
  refused([&] { (void)part.at("list").at(2); }, ", list: found a list of 2, expected a list of 3 or more");
  refused([&] { (void)part.at("list").entries(3); }, ", list: found a list of 2, expected a list of 3");
  refused([&] { (void)part.at("whole").whole(4, 5); }, ", whole: found 3, expected a whole number from 4 to 5");
  refused([&] { (void)part.at("huge").whole(0, 5); }, ", huge: found 1e+300, expected a whole number from 0 to 5");
  refused([&] { (void)part.at("text").number(); }, ", text: found \"a\", expected a number");
  refused([&] { (void)part.at("whole").text(); }, ", whole: found 3, expected text");
  refused([&] { (void)part.at("whole").flag(); }, ", whole: found 3, expected true or false");
  refused([&] { (void)part.at("bits").values(2); }, ", bits: found");
  refused([&] { (void)part.at("text").values(); }, ", text: 1 hex digits");
}

TEST_CASE("readings of every placement are the same when they come from a journal") {
  for (const char* placement : {"pre", "peri", "post", "residual", "mix", "none"}) {
    for (const bool backward : {false, true}) {
      CAPTURE(std::string(placement));
      CAPTURE(backward);
      const testing::TemporaryFolder folder;
      StackSpec spec;
      spec.model = {.layers = 2, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
      spec.model.mlp = backward ? MlpKind::swiglu : MlpKind::relu;
      spec.model.placement = *find_placement(placement);
      spec.input.tokens = 3;
      const bool diverges = !spec.model.has_norms();
      if (diverges) spec.init.std = 1e15;
      config::RunOptions run;
      run.dtype = DType::f32;
      run.backward = backward;
      const auto backend = make_backend("cpu");
      std::vector<std::vector<Json>> readings;
      for (int time = 0; time < 2; ++time) {
        stacks::CellJournal journal(folder.path(), "test", resolved_with(1));
        stacks::Progress progress(&journal);
        auto& all = readings.emplace_back();
        stacks::measure_stack(*backend, spec, run, 3, progress,
                              [&](const Reading& r) { all.push_back(stacks::cached_json(r)); });
        CHECK(all.size() == 3);
        CHECK_MESSAGE(journal.find(stacks::seeds_key("reading", spec, run) + " seed 0").has_value() == (time == 1),
                      "the second time they are not measured");
      }
      CHECK(readings[0] == readings[1]);
      CHECK((readings[1].front().at("diverged_at").get<int>() >= 0) == diverges);
    }
  }
}

TEST_CASE("the keys of seeds differ in all that a result depends on") {
  StackSpec spec;
  config::RunOptions run;
  const std::string key = stacks::seeds_key("reading", spec, run);
  CHECK(stacks::seeds_key("reading", spec, run) == key);
  CHECK(stacks::seeds_key("paths", spec, run) != key);
  const auto differs = [&](const auto& change) {
    StackSpec other_spec = spec;
    config::RunOptions other_run = run;
    change(other_spec, other_run);
    return stacks::seeds_key("reading", other_spec, other_run) != key;
  };
  CHECK(differs([](StackSpec& s, config::RunOptions&) { s.model.norm_eps *= 2.0; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.dtype = r.dtype == DType::f64 ? DType::f32 : DType::f64; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.device = "reference"; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.backward = !r.backward; }));
  CHECK_FALSE(differs([](StackSpec&, config::RunOptions& r) { r.threads = 7; }));
}

TEST_CASE("a function that is asked to stop says so, and judges nothing") {
  stacks::LadderConfig config;
  config.base.model = {.layers = 1, .width = 16, .heads = 2, .kv_heads = 2, .head_dim = 8, .mlp_width = 16};
  config.base.init.scheme = InitScheme::lecun;
  config.base.input.tokens = 3;
  config.inputs = {InputKind::gaussian};
  config.placements = {*find_placement("pre"), *find_placement("peri")};
  config.widths = {16, 32, 48, 64};
  config.width_seeds = 12;
  stacks::Progress patient;
  CHECK_FALSE(stacks::run_ladder(config, patient).stopped_early);
  Impatient impatient;
  const stacks::LadderResult result = stacks::run_ladder(config, impatient);
  CHECK(result.stopped_early);
  REQUIRE(result.stacks.size() == 1);
  CHECK(result.stacks[0].verdict == judge::Verdict::not_checked);
}

}  // namespace periscope
