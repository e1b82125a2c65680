#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

std::string text_of(const auto& value) {
  using doctest::toString;  // finds the overloads of periscope by argument-dependent lookup
  return toString(value).c_str();
}

TEST_CASE("failed comparisons print names and elements, not {?}") {
  CHECK(text_of(Signal::x_out) == "x_out");
  CHECK(text_of(Weight::down) == "down");
  CHECK(text_of(MlpKind::geglu) == "geglu");
  CHECK(text_of(Activation::gelu_tanh) == "gelu_tanh");
  CHECK(text_of(DType::f32) == "f32");
  CHECK(text_of(std::vector<double>{1.5, -2.0}) == "[1.5, -2]");
  CHECK(text_of(std::vector<std::vector<int>>{{1}, {}}) == "[[1], []]");
  CHECK(text_of(std::vector<std::string>{"a", "b"}) == "[a, b]");
  CHECK(text_of(std::vector<bool>{true, false}) == "[10]");
  CHECK(text_of(std::pair(1, Weight::q)) == "(1, q)");
  CHECK(text_of(std::optional<int>()) == "nothing");
  CHECK(text_of(std::optional<int>(3)) == "3");
  CHECK(text_of(std::vector<int>(40, 7)).ends_with("7, … 40 in all]"));
}

}  // namespace
}  // namespace periscope::testing
