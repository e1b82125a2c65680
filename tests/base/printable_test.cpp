#include "sim/base/printable.h"
#include "tests/support/doctest.h"

namespace periscope {

TEST_CASE("printable: printable text is unchanged") {
  for (const char* text : {"", "plain", "E[x²] ≥ 1/√D", "日本語", "a\\x1b", "\xf0\x9f\x98\x80"})
    CHECK(printable(text) == text);
}

TEST_CASE("printable: control characters are escaped") {
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("a\tb\nc\rd\x7f") == "a\\x09b\\x0ac\\x0dd\\x7f");
  CHECK(printable("a\tb\nc\rd\x7f", Layout::lines) == "a\tb\nc\\x0dd\\x7f");
  CHECK_MESSAGE(printable("\xc2\x9b"
                          "31m") == "\\u009b31m",
                "C1's escape sequence");
  CHECK_MESSAGE(printable("\xe2\x80\xae"
                          "cod.exe") == "\\u202ecod.exe",
                "override of the text direction");
  CHECK(printable("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8") == "\\u2066\\u200f\\u061c\\u2028");
}

TEST_CASE("printable: invalid UTF-8 is escaped byte by byte") {
  CHECK(printable("caf\xe9") == "caf\\xe9");
  CHECK_MESSAGE(printable("\x9b"
                          "31m") == "\\x9b31m",
                "C1 in Latin 1");
  CHECK_MESSAGE(printable("\xc0\x9b") == "\\xc0\\x9b", "overlong encoding");
  CHECK_MESSAGE(printable("\xe0\x82\x9b") == "\\xe0\\x82\\x9b", "overlong encoding");
  CHECK_MESSAGE(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80", "a surrogate");
  CHECK_MESSAGE(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80", "code point beyond Unicode");
  CHECK_MESSAGE(printable("\xe2\x82") == "\\xe2\\x82", "truncated");
  CHECK_MESSAGE(printable("\xff"
                          "a") == "\\xffa",
                "invalid lead byte");
}

}  // namespace periscope
