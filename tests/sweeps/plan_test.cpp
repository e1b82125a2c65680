#include <algorithm>

#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"
#include "tests/sweeps/small_sweep.h"

namespace periscope::testing {
namespace {

using sweeps::CellId;
using sweeps::Draft;
using sweeps::GridPlan;

const std::string text = R"(
[sweep]
study = "propagate"
backward = true
[sweep.grid]
"model.layers" = [1, 2]
"init.scheme" = ["lecun", "normal"]
[[sweep.zip]]
"model.width" = [8, 12, 16]
"run.seeds" = [4, 3, 2]
[base.model]
heads = 2
placement = {A = true, B = false}
[base.input]
tokens = 3
path = "words.txt"
[base.run]
threads = 1
out = "somewhere"
)";

std::string changed(std::string all, const std::string& from, const std::string& to) {
  REQUIRE(all.find(from) != std::string::npos);
  return all.replace(all.find(from), from.size(), to);
}

std::string message_of(const std::string& file) {
  try {
    static_cast<void>(GridPlan(sweeps::read_draft(file)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("sweep plan: a file gives axes in their order, flags and the base without keys of the execution") {
  const TemporaryFolder folder;
  const GridPlan plan(sweeps::read_draft(folder.write("sweep.toml", text)));
  CHECK(plan.study().name == "propagate");
  CHECK(plan.cells() == 12);
  CHECK(plan.flags() == study::FlagValues{{"backward", {}}});
  CHECK(plan.label(0) == "model.layers = 1, init.scheme = lecun, model.width = 8, run.seeds = 4");
  CHECK(plan.label(7) == "model.layers = 2, init.scheme = lecun, model.width = 12, run.seeds = 3");
  const sweeps::Json base = plan.json()["base"];
  CHECK(base.size() == 4);
  CHECK(base["input.path"] == folder.path("words.txt"));
  CHECK(base["model.placement"]["A"] == true);
}

TEST_CASE("sweep plan: JSON is read back as the same plan") {
  const TemporaryFolder folder;
  const GridPlan plan(sweeps::read_draft(folder.write("sweep.toml", text)));
  const GridPlan again = GridPlan::read(folder.write("plan.json", plan.json().dump()));
  CHECK(again.json() == plan.json());
  CHECK_THROWS_AS(GridPlan::read(folder.write("plan.json", "{}")), InputError);
  CHECK_THROWS_AS(GridPlan::read(folder.write("plan.json", "3 4")), InputError);
}

TEST_CASE("sweep plan: the base may be a file, relative to the plan") {
  const TemporaryFolder folder;
  folder.write("some/base.toml", "[model]\nwidth = 8\nheads = 2\n");
  const std::string file = folder.write("some/sweep.toml",
                                        "base = \"base.toml\"\n[sweep]\nstudy = \"theory\"\n[sweep.grid]\n"
                                        "\"model.layers\" = [1, 2]\n");
  CHECK(GridPlan(sweeps::read_draft(file)).json()["base"] == sweeps::Json{{"model.width", 8}, {"model.heads", 2}});
}

TEST_CASE("sweep plan: messages name the file, the key and what is expected") {
  const TemporaryFolder folder;
  struct Mistake {
    std::string from, to, part;
  };
  const std::vector<Mistake> mistakes{
      {"study = \"propagate\"", "study = \"propagat\"", "nearest is propagate"},
      {"study = \"propagate\"", "", "sweep.study: expected the name of a study"},
      {"study = \"propagate\"", "study = \"power\"", "expected one of propagate"},
      {"backward = true", "backwards = true", "expected a flag of propagate"},
      {"backward = true", "backward = 3", "sweep.backward = 3: expected true or false"},
      {"backward = true", "dump = \"x\"", "dump: unsupported in a sweep"},
      {"[1, 2]", "1", "sweep.grid.model.layers: expected a list"},
      {"[1, 2]", "[]", "model.layers: expected at least one value"},
      {"\"init.scheme\"", "\"inti.scheme\"", "inti.scheme: unknown section; nearest is init"},
      {"\"init.scheme\"", "\"ladder.widths\"", "ladder.widths: has no effect in propagate"},
      {"\"init.scheme\"", "\"run.threads\"", "run.threads: cannot be swept"},
      {"\"init.scheme\"", "scheme", "scheme: expected a key with its section"},
      {"\"run.seeds\"", "\"model.layers\"", "model.layers: expected each key once"},
      {"[4, 3, 2]", "[4, 3]", "run.seeds: expected 3 values, as many as for model.width, found 2"},
      {"[base.model]", "[bas.model]", "bas: expected [sweep] or [base]"},
  };
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.to);
    const std::string message = message_of(folder.write("sweep.toml", changed(text, mistake.from, mistake.to)));
    CAPTURE(message);
    CHECK(message.find(mistake.part) != std::string::npos);
    CHECK((message.starts_with(folder.path("sweep.toml")) || message.starts_with("study ")));
  }
}

TEST_CASE("sweep cells: ids do not depend on the order of keys and on the number of threads") {
  const std::vector<CellId> ids = ids_of(small_draft());
  Draft other = small_draft();
  std::ranges::reverse(other.axes);
  other.base = config::read_tree("", {"init.scheme=lecun", "theory.replicates=4", "model.heads=2", "model.width=8",
                                      "input.tokens=3", "model.mlp_width=12", "model.vocab=20", "run.threads=2"});
  const std::vector<CellId> swapped = ids_of(other);
  for (std::size_t layers = 0; layers < 3; ++layers) {
    for (std::size_t placement = 0; placement < 2; ++placement) {
      CHECK(ids[2 * layers + placement] == swapped[3 * placement + layers]);
    }
  }
  const Threads one(1);
  CHECK(ids_of(small_draft()) == ids);
}

TEST_CASE("sweep cells: a changed value changes exactly its cells") {
  const std::vector<CellId> ids = ids_of(small_draft());
  Draft other = small_draft();
  other.axes[0].keys[0].second[1] = 4;
  const std::vector<CellId> changed_ids = ids_of(other);
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK((ids[i] == changed_ids[i]) == (i / 2 != 1));
  other = small_draft();
  other.flags["backward"] = {};
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK(ids_of(other)[i] != ids[i]);
}

TEST_CASE("sweep cells: ids depend on the content of texts, not on their path") {
  const TemporaryFolder folder;
  Draft draft = small_draft();
  draft.base.put("input.kind", "text", "");
  draft.base.put("model.vocab", 256, "");
  draft.axes[1] = {{{"input.path", {folder.write("a", "one"), folder.write("b", "one"), folder.write("c", "two")}}}};
  const std::vector<CellId> ids = ids_of(draft);
  CHECK(ids[0] == ids[1]);
  CHECK(ids[0] != ids[2]);
}

TEST_CASE("sweep cells: a value that is never valid is rejected, an invalid combination is not") {
  const TemporaryFolder folder;
  stacks::Progress progress;
  Draft draft = small_draft();
  draft.axes[0] = {{{"model.width", {8, 12}}}};
  draft.axes[1] = {{{"model.heads", {2, 3}}}};
  const sweeps::PlanSummary summary = sweeps::make_plan(GridPlan(draft), folder.path(), progress);
  CHECK(summary.invalid_cells == 1);
  CHECK(summary.invalid.find("model.width = 8, model.heads = 3: model.heads = 3") != std::string::npos);
  draft.axes[1] = {{{"model.norm", {"rms", "rmss"}}}};
  try {
    static_cast<void>(sweeps::make_plan(GridPlan(draft), folder.path(), progress));
    FAIL("accepted");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).find("model.norm = \"rmss\": expected") != std::string::npos);
  }
}

}  // namespace
}  // namespace periscope::testing
