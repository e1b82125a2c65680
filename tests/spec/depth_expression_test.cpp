#include "sim/spec/depth_expression.h"

#include <cmath>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

double at(const char* text, int l = 3, int layers = 8) { return DepthExpression::parse(text).value().at(l, layers); }

TEST_CASE("depth expressions depend on L, the number of layers, and l, the number of earlier additions") {
  CHECK(at("2L") == 16.0);
  CHECK(at("1/sqrt(l+1)") == 0.5);
  CHECK(at("(2L)^0.25") == 2.0);
  CHECK(at("2 L l") == 48.0);
  CHECK(at("-L/2 + 3") == -1.0);
  CHECK(at("2L^2") == 128.0);
  CHECK(at("sqrt(L/(L+l))") == std::sqrt(8.0 / 11.0));
  CHECK(at("2-1") == 1.0);
  CHECK(at("1e-3L") == 8e-3);
  CHECK(DepthExpression(0.3).at(5, 9) == 0.3);
  CHECK(DepthExpression(0.3).text().empty());
}

TEST_CASE("invalid depth expressions are rejected") {
  for (const char* text : {"", "2**L", "L)", "(L", "sqrt 2", "layers", "1/", "L l )", "n+1", "2;L"}) {
    CAPTURE(text);
    CHECK_FALSE(DepthExpression::parse(text).has_value());
  }
  CHECK_FALSE(DepthExpression::parse(std::string(300, '(')).has_value());
}

}  // namespace
}  // namespace periscope
