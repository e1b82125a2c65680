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
  CHECK(printable("\xc2\x9b[m") == "\\u009b[m");          // C1 control sequence introducer
  CHECK(printable("\xe2\x80\xae.exe") == "\\u202e.exe");  // right-to-left override
  CHECK(printable("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8") == "\\u2066\\u200f\\u061c\\u2028");
}

TEST_CASE("printable: invalid UTF-8 is escaped byte by byte") {
  CHECK(printable("caf\xe9") == "caf\\xe9");
  CHECK(printable("\x9b[m") == "\\x9b[m");                         // C1 control character in Latin 1
  CHECK(printable("\xc0\x9b") == "\\xc0\\x9b");                    // overlong encoding
  CHECK(printable("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");           // overlong encoding
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // code point beyond Unicode
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");                    // truncated
  CHECK(printable("\xff.") == "\\xff.");                           // invalid lead byte
}

}  // namespace periscope
