#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/toml_reader.h"
#include "experiments/engine/study/request.h"
#include "experiments/studies/studies.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

TEST_CASE("the text of a single stack is read by Request::load, not by load_config") {
  const TemporaryFolder folder;
  const std::string path = folder.path("text.txt");
  study::Request request{.known = sections(),
                         .entries = {"input.kind=\"text\"", "input.tokens=5", "input.path=\"" + path + "\""}};
  const config::Config unread = config::load_config(sections(), "", request.entries);
  CHECK_THROWS_AS(config::resolved(unread), std::logic_error);
  CHECK_THROWS_AS(stacks::token_ids(unread.base, 0), std::logic_error);
  CHECK_THROWS_AS((void)request.load(), InputError);
  request.reads_texts = false;
  CHECK(request.load().base.input.text == nullptr);
  request.reads_texts = true;
  request.theory_settings = {"model.rope=false"};
  folder.write("text.txt", "first text");
  const config::Config config = request.load();
  CHECK(config.base.input.text != nullptr);
  CHECK(config.predicted_stacks().front().input.text == config.base.input.text);
}

TEST_CASE("settings below a list of tables apply to every entry") {
  config::Tree tree = config::read_tree("", {"model.placement=[{A=true},{B=true,beta=2.0}]"});
  tree.set("model.placement.beta=0.5", "--theory-set");
  for (const config::Json& placement : *tree.find("model.placement")) CHECK(placement.at("beta") == 0.5);
}

}  // namespace
}  // namespace periscope::testing
