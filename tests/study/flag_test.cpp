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

TEST_CASE("flags: invalid values are rejected by flag and value") {
  const auto rejection = [](const study::FlagValues& values) -> std::string {
    try {
      study::read_flags(flags, values);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  for (const auto& [values, words] :
       std::vector<std::pair<study::FlagValues, std::vector<std::string>>>{{{{"count", {"10"}}}, {"--count", "10"}},
                                                                           {{{"count", {"2.5"}}}, {"--count", "2.5"}},
                                                                           {{{"count", {"many"}}}, {"--count", "many"}},
                                                                           {{{"scale", {"0"}}}, {"--scale", "0"}},
                                                                           {{{"scale", {"nan"}}}, {"--scale", "nan"}},
                                                                           {{{"steps", {"0"}}}, {"--steps", "0"}}}) {
    const std::string text = rejection(values);
    for (const std::string& word : words) CHECK_MESSAGE(text.find(word) != std::string::npos, word << " in: " << text);
  }
}

}  // namespace
}  // namespace periscope::testing
