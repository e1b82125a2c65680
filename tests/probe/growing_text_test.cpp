#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "experiments/app/tools/generate.h"
#include "tests/support/doctest.h"

/// A text that is printed while it grows, token by token, which may end in the middle of a character.
namespace periscope::testing {
namespace {

/// What a function writes to standard output.
std::string written(const std::function<void()>& function) {
  std::cout.flush();
  std::fflush(stdout);
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const int kept = dup(STDOUT_FILENO);
  REQUIRE(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
  function();
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(ends[1]);
  std::string all;
  std::array<char, 256> part{};
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;) {
    all.append(part.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  return all;
}

/// What comes out for every text that is shown, and at the end.
std::vector<std::string> shown(bool terminal, const std::vector<std::string>& texts) {
  app::GrowingText text(terminal);
  std::vector<std::string> all;
  for (const std::string& whole : texts) all.push_back(written([&] { text.show(whole); }));
  all.push_back(written([&] { text.end(); }));
  return all;
}

using Words = std::vector<std::string>;

TEST_CASE("a terminal waits for the rest of a character of two, three or four bytes") {
  CHECK(shown(true, {"a\xc3", "a\xc3\xa9z"}) == Words{"a",
                                                      "é"
                                                      "z",
                                                      "\n"});
  CHECK(shown(true, {"\xe2", "\xe2\x82", "\xe2\x82\xac"}) == Words{"", "", "€", "\n"});
  CHECK(shown(true, {"\xf0", "\xf0\x9f", "\xf0\x9f\x99", "\xf0\x9f\x99\x82"}) == Words{"", "", "", "🙂", "\n"});
  CHECK(shown(true, {"é", "é\xc3", "é\xc3\xa9"}) == Words{"é", "", "é", "\n"});
}

TEST_CASE("what never becomes a character is shown as bytes, at the end or as soon as it is known") {
  CHECK(shown(true, {"a\xc3"}) == Words{"a", "\\xc3\n"});
  CHECK(shown(true, {"\xf0\x9f\x99"}) == Words{"", "\\xf0\\x9f\\x99\n"});
  CHECK(shown(true, {"\xc3", "\xc3z"}) == Words{"", "\\xc3z", "\n"});
  CHECK(shown(true, {"\x80\x80\x80\x80"}) == Words{"\\x80\\x80\\x80\\x80", "\n"});
}

TEST_CASE("a file gets every byte at once, and who shows nothing has no line to end") {
  CHECK(shown(false, {"a\xc3", "a\xc3\xa9"}) == Words{"a\xc3", "\xa9", "\n"});
  CHECK(shown(true, {}) == Words{""});
  CHECK(shown(false, {"", ""}) == Words{"", "", "\n"});
}

}  // namespace
}  // namespace periscope::testing
