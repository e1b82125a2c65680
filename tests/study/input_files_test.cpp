#include <thread>

#include "experiments/engine/settings/input_file.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

/// A process that has several runs, one after the other or beside each other, and files that change between them.
namespace periscope::testing {
namespace {

TEST_CASE("input files: a run sees one content, the next run what is there then") {
  const TemporaryFolder folder;
  const std::string path = folder.write("text.txt", "first");
  {
    const config::RunOfInputFiles run;
    CHECK(config::input_file(path)->head == "first");
    folder.write("text.txt", "second");
    CHECK(config::input_file(path)->head == "first");
  }
  const config::RunOfInputFiles run;
  CHECK(config::input_file(path)->head == "second");
}

TEST_CASE("input files: a run that would get another run's old content is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.write("text.txt", "first");
  const std::string steady = folder.write("steady.txt", "steady");
  const config::RunOfInputFiles run;
  CHECK(config::input_file(path)->head == "first");
  CHECK(config::input_file(steady)->head == "steady");
  folder.write("text.txt", "other text");
  std::string refusal;
  std::thread([&] {
    const config::RunOfInputFiles beside;
    CHECK(config::input_file(steady)->head == "steady");  // what has not changed is nobody's trouble
    try {
      static_cast<void>(config::input_file(path));
    } catch (const InputError& error) {
      refusal = error.what();
    }
  }).join();
  CHECK(refusal.find(path) == 0);
  CHECK(config::input_file(path)->head == "first");
}

TEST_CASE("input files: what a run has read stays while another run begins") {
  const TemporaryFolder folder;
  const std::string path = folder.write("text.txt", "first");
  const auto kept = config::input_file(path);
  { const config::RunOfInputFiles run; }  // forgets the files that were read before
  CHECK(kept->head == "first");
}

TEST_CASE("configuration files: what theory is told comes on top of the text that was read") {
  const TemporaryFolder folder;
  const std::string path = folder.write("stacks.toml", "[model]\nnorm_eps = [1e-6, 1e-5, 1e-4]\n");
  const auto tree = config::read_tree(path);
  folder.write("stacks.toml", "[model]\nnorm_eps = 0.5\n");
  CHECK(config::overridden_tree(*tree, {"model.gamma=2.0"})->values.at_path("model.norm_eps").is_array());
}

TEST_CASE("settings below a list of tables: every entry gets them") {
  const auto tree = config::read_tree("", {"model.placement=[{A=true},{B=true,beta=2.0}]"});
  const auto told = config::overridden_tree(*tree, {"model.placement.beta=0.5"});
  for (const char* beta : {"model.placement[0].beta", "model.placement[1].beta"}) {
    CHECK(told->values.at_path(beta).value<double>() == 0.5);
  }
}

}  // namespace
}  // namespace periscope::testing
