#include <array>
#include <string>

#include "sim/base/error.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

TEST_CASE("nearest prefers a typo, then a common prefix, then the fewest edits") {
  const std::array<std::string, 5> names{"post", "pre", "peri", "deepnorm", "mix"};
  CHECK(nearest("prenorm", names) == "pre");
  CHECK(nearest("postnorm", names) == "post");
  CHECK(nearest("deepnrom", names) == "deepnorm");
  CHECK(nearest("deep", names) == "deepnorm");
  CHECK(nearest("pri", names) == "pre");
  CHECK(nearest("nix", names) == "mix");
  CHECK(nearest("", std::array<std::string, 0>{}).empty());
}

TEST_CASE("suggestion offers only names within two edits and half the word's length, or with a common prefix") {
  const std::array<std::string, 3> names{"toy", "theory", "propagate"};
  CHECK(similar_name("foo", names).empty());
  CHECK(similar_name("", names).empty());
  CHECK(suggestion("simulate", names).empty());
  CHECK(suggestion("tyo", names).empty());
  CHECK(suggestion("toi", names) == "; nearest is toy");
  CHECK(suggestion("propagaet", names, "model.") == "; nearest is model.propagate");
  CHECK(suggestion("prop", names) == "; nearest is propagate");
}

}  // namespace
}  // namespace periscope
