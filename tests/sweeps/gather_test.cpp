#include <algorithm>
#include <filesystem>

#include "experiments/engine/result/serialize.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"
#include "tests/sweeps/small_sweep.h"

namespace periscope::testing {
namespace {

using dataset::Column;
using dataset::Dataset;
using sweeps::CellCounts;
using sweeps::Draft;
using sweeps::GridPlan;

stacks::Progress silent;

/// Computes all cells in `shards` shards, the last one first.
CellCounts run_all(const Draft& draft, const TemporaryFolder& folder, std::size_t shards = 1) {
  static_cast<void>(sweeps::make_plan(GridPlan(draft), folder.path(), silent));
  CellCounts counts;
  for (std::size_t k = shards; k > 0; --k) counts = sweeps::run_shard(folder.path(), {.shard = {k, shards}}, silent);
  return counts;
}

Dataset gathered(const TemporaryFolder& folder, const std::vector<std::string>& columns = {}) {
  const sweeps::Gathered result = sweeps::gather(folder.path(), {.partial = true, .columns = columns}, silent);
  REQUIRE(result.data.has_value());
  return *result.data;
}

/// Returns the value at these indices along the column's dimensions.
double number(const Dataset& data, const std::string& name, const std::vector<std::size_t>& index) {
  const Column& column = *data.find(name);
  REQUIRE(column.dimensions.size() == index.size());
  std::size_t flat = 0;
  for (std::size_t d = 0; d < index.size(); ++d) flat = flat * data.length(column.dimensions[d]) + index[d];
  return dataset::number_at(column.values, flat);
}

TEST_CASE("sweep gather: every cell has the values of its own run; ragged depths are padded") {
  const TemporaryFolder folder;
  const Draft draft = small_draft();
  const CellCounts counts = run_all(draft, folder);
  CHECK(counts.done == 6);
  const Dataset all = gathered(folder);
  CHECK(all.find("model.layers")->values == dataset::Values(std::vector<std::int64_t>{1, 2, 3}));
  CHECK(all.find("placement")->values == dataset::Values(std::vector<std::string>{"pre", "peri"}));
  CHECK(all.find("depth")->values == dataset::Values(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  CHECK(all.find("sublayer_kind")->dimensions == std::vector<std::string>{"sublayer"});
  const std::string name = "second_moment_predicted";
  CHECK(all.find(name)->dimensions == std::vector<std::string>{"model.layers", "input", "placement", "depth"});
  for (std::size_t cell = 0; cell < 6; ++cell) {
    const study::Job job = *sweeps::resolve(GridPlan(draft), cell).job;
    const Dataset own = *job.run(silent).data;
    const std::size_t depths = own.length("depth");
    CHECK(depths == 2 * (cell / 2 + 1) + 1);
    for (std::size_t d = 0; d < 7; ++d) {
      const double value = number(all, name, {cell / 2, 0, cell % 2, d});
      CHECK((d < depths ? value == number(own, name, {0, 0, d}) : std::isnan(value)));
    }
  }
  CHECK(all.attributes["complete"] == 1);
  CHECK(all.attributes["config"]["stacks"][0]["model"]["width"] == 8);
  CHECK(!all.attributes["config"]["stacks"][0]["model"].contains("layers"));
  CHECK(all.circumstances.empty());
}

TEST_CASE("sweep gather: the same dataset for any number and order of shards and threads, and after a damaged file") {
  std::vector<std::string> texts;
  for (const std::size_t shards : {1, 4, 7}) {
    const TemporaryFolder folder;
    const Threads threads(shards == 4 ? 1 : 2);
    run_all(small_draft(), folder, shards);
    if (shards == 7) {
      const auto ids = ids_of(small_draft());
      const std::string file = sweeps::block_file(folder.path(), {ids[3]});
      std::filesystem::resize_file(file, 100);
      CHECK(sweeps::status_of(folder.path(), silent).counts.missing() == 1);
      sweeps::run_shard(folder.path(), {}, silent);
    }
    texts.push_back(dataset::json_of(gathered(folder)).dump());
  }
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0] == texts[2]);
}

TEST_CASE("sweep gather: missing and failed cells are missing values with a status") {
  const TemporaryFolder folder;
  Draft draft = small_draft();
  draft.axes[0] = {{{"model.width", {8, 40}}}};
  draft.axes[1] = {{{"model.heads", {2, 5, 4}}}};
  static_cast<void>(sweeps::make_plan(GridPlan(draft), folder.path(), silent));
  const CellCounts counts = sweeps::run_shard(folder.path(), {.shard = {2, 5}}, silent);  // the second cell: 5 heads
  CHECK(counts.failed == 1);
  CHECK(counts.code() == ExitCode::runtime_failure);
  sweeps::run_shard(folder.path(), {.shard = {1, 5}}, silent);
  CHECK(!sweeps::gather(folder.path(), {}, silent).data);
  const Dataset all = gathered(folder, {"second_moment_predicted"});
  CHECK(all.find("cell_status")->values ==
        dataset::Values(std::vector<std::string>{"done", "failed", "missing", "missing", "missing", "done"}));
  CHECK(std::get<std::vector<std::string>>(all.find("cell_message")->values)[1].starts_with("model.heads = 5"));
  CHECK(number(all, "cell_exit_code", {0, 1}) == 2);
  CHECK(std::isnan(number(all, "cell_exit_code", {0, 2})));
  CHECK(std::isnan(number(all, "second_moment_predicted", {0, 1, 0, 0, 0})));
  CHECK(std::isfinite(number(all, "second_moment_predicted", {1, 2, 0, 0, 0})));
  CHECK(all.find("theory_replicates") == nullptr);
  CHECK(all.attributes["complete"] == 0);
  CHECK_THROWS_AS(sweeps::gather(folder.path(), {true, {"second_momen"}}, silent), ConfigError);
}

TEST_CASE("sweep gather: keys that vary together share a dimension; a coordinate that differs becomes a column") {
  const TemporaryFolder folder;
  Draft draft = small_draft();
  draft.axes = {{{{"model.recipe", {"llama", "olmo2"}}, {"model.layers", {1, 2}}}}, {{{"run.seed", {0, 9}}}}};
  run_all(draft, folder);
  const Dataset all = gathered(folder);
  CHECK(all.find("model.recipe")->values == dataset::Values(std::vector<std::string>{"llama", "olmo2"}));
  CHECK(all.find("model.layers")->dimensions == std::vector<std::string>{"model.recipe"});
  CHECK(all.find("model.layers")->label);
  CHECK(all.find("run.seed")->values == dataset::Values(std::vector<std::int64_t>{0, 9}));
  CHECK(all.find("placement")->values == dataset::Values(std::vector<std::string>{"varies"}));
  CHECK(all.find("cell_placement")->values ==
        dataset::Values(std::vector<std::string>{"pre", "pre", "b-only", "b-only"}));
}

TEST_CASE("sweep run: failed cells are computed again only on request, finished ones never") {
  const TemporaryFolder folder;
  Draft draft = small_draft();
  draft.axes[0] = {{{"model.width", {8, 12}}}};
  draft.axes[1] = {{{"model.heads", {2, 3}}}};
  run_all(draft, folder);
  const auto ids = ids_of(draft);
  const std::string done = sweeps::block_file(folder.path(), {ids[0]});
  const std::string failed = sweeps::block_file(folder.path(), {ids[1]});
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string& file : {done, failed}) std::filesystem::last_write_time(file, old);
  sweeps::run_shard(folder.path(), {}, silent);
  CHECK(std::filesystem::last_write_time(failed) == old);
  sweeps::run_shard(folder.path(), {.retry = true}, silent);
  CHECK(std::filesystem::last_write_time(failed) > old);
  CHECK(std::filesystem::last_write_time(done) == old);
}

TEST_CASE("sweep run: a stopped run keeps its finished cells and resumes") {
  class StopsAfter final : public stacks::Progress {
   public:
    explicit StopsAfter(int cells) : left_(cells) {}
    [[nodiscard]] bool stop_requested() const override { return left_ <= 0; }

   private:
    void on_report(Report change) override {
      if (change == Report::computed) --left_;
    }
    int left_;
  };
  const TemporaryFolder folder;
  static_cast<void>(sweeps::make_plan(GridPlan(small_draft()), folder.path(), silent));
  StopsAfter two(2);
  CHECK_THROWS_AS(sweeps::run_shard(folder.path(), {}, two), stacks::Stopped);
  CHECK(two.is_resumable());
  const sweeps::SweepStatus status = sweeps::status_of(folder.path(), silent);
  CHECK(status.counts.done == 2);
  CHECK(status.computed == 2);
  CHECK(sweeps::run_shard(folder.path(), {}, silent).done == 6);
}

TEST_CASE("sweep shard: K/N") {
  CHECK(stacks::parse_shard("3/16").index == 3);
  CHECK(stacks::parse_shard("3/16").count == 16);
  for (const char* wrong : {"", "3", "0/2", "3/2", "1/0", "a/2", "1/2/3", "-1/2"}) {
    CHECK_THROWS_AS(stacks::parse_shard(wrong), ConfigError);
  }
}

}  // namespace
}  // namespace periscope::testing
