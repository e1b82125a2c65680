#include "sim/base/enumerators.h"

#include <array>
#include <string_view>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

enum class Colour { red, light_green, blue };

struct ColourRow {
  Colour colour;
  int number;
};

using Names = std::array<std::string_view, 3>;

TEST_CASE("enumerators: gcc and clang list the identifiers from value 0 on") {
  CHECK(enumerators_supported);
  REQUIRE(identifiers<Colour>.size() == 3);
  CHECK(identifiers<Colour>[0] == "red");
  CHECK(identifiers<Colour>[1] == "light_green");
  CHECK(identifiers<Colour>[2] == "blue");
}

TEST_CASE("enumerators: a table of names with a missing, extra, empty or swapped name is rejected") {
  CHECK(are_names_of<Colour>(Names{"red", "light-green", "dark"}));
  CHECK_FALSE(are_names_of<Colour>(std::array<std::string_view, 2>{"red", "light-green"}));
  CHECK_FALSE(are_names_of<Colour>(std::array<std::string_view, 4>{"red", "light-green", "blue", "violet"}));
  CHECK_FALSE(are_names_of<Colour>(Names{"red", "light-green"}));
  CHECK_FALSE(are_names_of<Colour>(Names{"red", "blue", "light-green"}));
  CHECK_FALSE(are_names_of<Colour>(Names{"light-green", "dark", "blue"}));
}

TEST_CASE("enumerators: a table of rows with a missing or swapped row is rejected") {
  constexpr ColourRow red{Colour::red, 1}, green{Colour::light_green, 2}, blue{Colour::blue, 3};
  CHECK(are_rows_of(std::array{red, green, blue}, &ColourRow::colour));
  CHECK_FALSE(are_rows_of(std::array{red, green}, &ColourRow::colour));
  CHECK_FALSE(are_rows_of(std::array{red, blue, green}, &ColourRow::colour));
}

}  // namespace
}  // namespace periscope
