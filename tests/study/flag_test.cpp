#include "experiments/engine/study/flag.h"

#include "tests/support/doctest.h"

/// How words become the fields of a study's flags.
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

TEST_CASE("flags that nobody gives have the fields' initial values") {
  const Flags read = study::read_flags(flags, {});
  CHECK_FALSE(read.toggle);
  CHECK(read.count == 3);
  CHECK(read.scale == 1.5);
  CHECK(read.word.empty());
  CHECK(read.words == std::vector<std::string>{"standard"});
  CHECK_FALSE(read.steps.has_value());
}

TEST_CASE("words become values; lists are separated by commas, or repeated") {
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
}

TEST_CASE("what no flag takes is refused, with its name, what was found and what was expected") {
  const auto rejection = [](const study::FlagValues& values) -> std::string {
    try {
      study::read_flags(flags, values);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  for (const auto& [values, words] : std::vector<std::pair<study::FlagValues, std::vector<std::string>>>{
           {{{"count", {"10"}}}, {"--count", "10", "9"}},
           {{{"count", {"2.5"}}}, {"--count", "2.5", "whole number"}},
           {{{"count", {"many"}}}, {"--count", "many"}},
           {{{"scale", {"0"}}}, {"--scale", "0"}},
           {{{"scale", {"nan"}}}, {"--scale", "nan"}},
           {{{"steps", {"0"}}}, {"--steps", "0"}}}) {
    const std::string text = rejection(values);
    for (const std::string& word : words) CHECK_MESSAGE(text.find(word) != std::string::npos, word << " in: " << text);
  }
}

TEST_CASE("a command line learns of every flag what it takes") {
  const std::vector<study::FlagText> texts = study::flag_texts(flags);
  REQUIRE(texts.size() == flags.size());
  CHECK(texts[0].toggle);
  CHECK(texts[1].default_text == "3");
  CHECK(texts[2].default_text == "1.5");
  CHECK(texts[4].list);
  CHECK(texts[5].number);
  CHECK(texts[5].default_text.empty());
}

}  // namespace
}  // namespace periscope::testing
