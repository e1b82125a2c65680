#include "experiments/engine/run/journal.h"

#include <algorithm>
#include <fstream>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;
const Json header{{"run", "a"}};

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A journal of three records.
std::string filled(const std::string& path) {
  stacks::Journal journal(path, header);
  for (int i = 0; i < 3; ++i) journal.append({{"i", i}, {"x", 0.1 * i}});
  return testing::bytes_of_file(path);
}

}  // namespace

TEST_CASE("a journal's records are there again, to the last bit") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("deep/journal");
  filled(path);
  const stacks::Journal again(path, header);
  REQUIRE(again.records().size() == 3);
  CHECK(again.records()[2]["x"].get<double>() == 0.1 * 2);
}

TEST_CASE("cut anywhere, a journal has the records that were whole, and goes on") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("journal");
  const std::string whole = filled(path);
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    CAPTURE(length);
    write(path, whole.substr(0, length));
    const auto lines =
        static_cast<std::size_t>(std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length), '\n'));
    {
      stacks::Journal journal(path, header);
      CHECK(journal.records().size() == (lines == 0 ? 0 : lines - 1));
      journal.append({{"new", true}});
    }
    const stacks::Journal again(path, header);
    CHECK(again.records().back().contains("new"));
  }
}

TEST_CASE("a damaged record in the middle is refused, as are another run's journal and a second writer") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("journal");
  std::string text = filled(path);
  {
    const stacks::Journal open(path, header);
    CHECK_THROWS_AS(stacks::Journal(path, header), ConfigError);
  }
  CHECK_THROWS_AS(stacks::Journal(path, Json{{"run", "b"}}), ConfigError);
  text[text.find("\"i\":1") + 4] = '7';
  write(path, text);
  CHECK_THROWS_AS(stacks::Journal(path, header), InputError);
}

TEST_CASE("a file of that name that is no journal is refused and left as it is") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("journal");
  const std::string whole = filled(path);
  const std::string first = whole.substr(0, whole.find('\n') + 1);
  for (const std::string& text :
       {std::string("notes of mine\n"), std::string("notes of mine"), std::string("\n"), std::string(100, '\0'),
        first + "and notes", first + "and notes\n", first + "\n", first + "0123456789abcdef 12 no JSON",
        first + "0123456789abcdef 2 {\"more than said", first + "0123456789abcdeF"}) {
    CAPTURE(text);
    write(path, text);
    CHECK_THROWS_AS(stacks::Journal(path, header), InputError);
    CHECK(testing::bytes_of_file(path) == text);
  }
  CHECK_THROWS_AS(stacks::Journal(folder.path(), header), Error);
  CHECK_THROWS_AS(stacks::Journal("/dev/null", header), InputError);
}

TEST_CASE("zeros that a loss of power left behind the last record are cut off") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("journal");
  const std::string whole = filled(path);
  for (const std::size_t kept : {std::size_t{0}, std::size_t{5}, std::size_t{17}, std::size_t{25}}) {
    write(path, whole + whole.substr(0, kept) + std::string(50, '\0'));
    CHECK(stacks::Journal(path, header).records().size() == 3);
    CHECK(testing::bytes_of_file(path) == whole);
  }
}

TEST_CASE("a record that is nested too deep is refused like a damaged one") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("journal");
  const std::string whole = filled(path);
  const std::string deep = "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  write(path, whole + config::sha256_hex(deep).substr(0, 16) + " " + std::to_string(deep.size()) + " " + deep + "\n");
  CHECK_THROWS_AS(stacks::Journal(path, header), InputError);
}

}  // namespace periscope
