#include "sim/spec/depth_expression.h"

#include <boost/spirit/home/x3.hpp>

#include <cmath>
#include <limits>

namespace periscope {
namespace grammar {
namespace {

namespace x3 = boost::spirit::x3;

/// Values of L and l, passed to semantic actions through the parser context.
struct Depth {
  double layers, addition;
};

const x3::rule<class SumRule, double> sum = "sum";
const x3::rule<class ProductRule, double> product = "product";
const x3::rule<class PowerRule, double> power = "power";
const x3::rule<class FactorRule, double> factor = "factor";

constexpr auto assign = [](auto& c) { _val(c) = _attr(c); };
constexpr auto add = [](auto& c) { _val(c) += _attr(c); };
constexpr auto subtract = [](auto& c) { _val(c) -= _attr(c); };
constexpr auto multiply = [](auto& c) { _val(c) *= _attr(c); };
constexpr auto divide = [](auto& c) { _val(c) /= _attr(c); };
constexpr auto raise = [](auto& c) { _val(c) = std::pow(_val(c), _attr(c)); };
constexpr auto root = [](auto& c) { _val(c) = std::sqrt(_attr(c)); };
constexpr auto layers = [](auto& c) { _val(c) = x3::get<Depth>(c).get().layers; };
constexpr auto addition = [](auto& c) { _val(c) = x3::get<Depth>(c).get().addition; };

/// Parses a number without a sign, so that "2-1" is a difference. "2L" is a product.
struct Unsigned : x3::ureal_policies<double> {};
const x3::real_parser<double, Unsigned> number;

const auto sum_def = (('-' >> product[([](auto& c) { _val(c) = -_attr(c); })]) | product[assign]) >>
                     *(('+' >> product[add]) | ('-' >> product[subtract]));
const auto product_def = power[assign] >> *(('*' >> power[multiply]) | ('/' >> power[divide]) | power[multiply]);
const auto power_def = factor[assign] >> -('^' >> factor[raise]);
const auto factor_def = number[assign] | ("sqrt" >> x3::lit('(') >> sum[root] >> ')') | ('(' >> sum[assign] >> ')') |
                        x3::lit('L')[layers] | x3::lit('l')[addition];

BOOST_SPIRIT_DEFINE(sum, product, power, factor)

std::optional<double> value_of(const std::string& text, Depth depth) {
  double value = std::numeric_limits<double>::quiet_NaN();
  auto position = text.begin();
  const auto with_depth = x3::with<Depth>(std::ref(depth))[sum];
  const bool is_valid = x3::phrase_parse(position, text.end(), with_depth, x3::space, value) && position == text.end();
  return is_valid ? std::optional(value) : std::nullopt;
}

}  // namespace
}  // namespace grammar

std::optional<DepthExpression> DepthExpression::parse(const std::string& text) {
  constexpr std::size_t max_length = 200;  // bounds the parser's recursion depth
  if (text.size() > max_length || !grammar::value_of(text, {1.0, 0.0})) return std::nullopt;
  DepthExpression expression(0.0);
  expression.text_ = text;
  return expression;
}

double DepthExpression::at(int l, int layers) const {
  if (text_.empty()) return value_;
  return grammar::value_of(text_, {static_cast<double>(layers), static_cast<double>(l)}).value();
}

}  // namespace periscope
