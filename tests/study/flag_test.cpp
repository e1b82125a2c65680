#include "experiments/engine/study/flag.h"

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

struct Flags {
  bool toggle = false;
  int count = 3;
  double scale = 1.5;
  std::string word;
  std::vector<std::string> words{"standard"};
  std::optional<int> steps;
};

const std::vector<study::Flag<Flags>> flags{
    {"toggle", &Flags::toggle, "A toggle"},           {"count", &Flags::count, "A whole number", from_to(1, 9)},
    {"scale", &Flags::scale, "A number", above(0.0)}, {"word", &Flags::word, "Any word"},
    {"words", &Flags::words, "Several words"},        {"steps", &Flags::steps, "None, or a whole number", at_least(1)}};

TEST_CASE("flags: text is parsed to values; lists are comma-separated or repeated; missing flags have defaults") {
  const Flags read = study::read_flags(flags, {{"toggle", {}},
                                               {"count", {"7"}},
                                               {"scale", {"0.25"}},
                                               {"word", {"any, word"}},
                                               {"words", {"a,b", "c"}},
                                               {"steps", {"12"}}});
  CHECK(read.toggle);
  CHECK(read.count == 7);
  CHECK(read.scale == 0.25);
  CHECK(read.word == "any, word");
  CHECK(read.words == std::vector<std::string>{"a", "b", "c"});
  CHECK(read.steps == 12);
  CHECK(study::read_flags(flags, {}).count == 3);
}

}  // namespace
}  // namespace periscope::testing
