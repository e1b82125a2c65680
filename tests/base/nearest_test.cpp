#include <array>
#include <string>

#include "sim/base/error.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

TEST_CASE("the nearest name: a typo first, then a common beginning, then the fewest edits") {
  const std::array<std::string, 5> names{"post", "pre", "peri", "deepnorm", "mix"};
  CHECK(nearest("prenorm", names) == "pre");
  CHECK(nearest("postnorm", names) == "post");
  CHECK(nearest("deepnrom", names) == "deepnorm");
  CHECK(nearest("deep", names) == "deepnorm");
  CHECK(nearest("pri", names) == "pre");
  CHECK(nearest("nix", names) == "mix");
  CHECK(nearest("", std::array<std::string, 0>{}).empty());
}

}  // namespace
}  // namespace periscope
