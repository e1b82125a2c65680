#include "sim/spec/depth_expression.h"

#include <boost/spirit/home/x3.hpp>

#include <cmath>
#include <limits>

namespace periscope {
namespace grammar {
namespace {

namespace x3 = boost::spirit::x3;

/// The values of L and l, which the parser's actions find in its context.
struct Depth {
  double layers, addition;
};

const x3::rule<class SumRule, double> sum = "sum";
const x3::rule<class ProductRule, double> product = "product";
const x3::rule<class PowerRule, double> power = "power";
const x3::rule<class FactorRule, double> factor = "factor";

constexpr auto is_it = [](auto& c) { _val(c) = _attr(c); };
constexpr auto add = [](auto& c) { _val(c) += _attr(c); };
constexpr auto subtract = [](auto& c) { _val(c) -= _attr(c); };
constexpr auto multiply = [](auto& c) { _val(c) *= _attr(c); };
constexpr auto divide = [](auto& c) { _val(c) /= _attr(c); };
constexpr auto raise = [](auto& c) { _val(c) = std::pow(_val(c), _attr(c)); };
constexpr auto root = [](auto& c) { _val(c) = std::sqrt(_attr(c)); };
constexpr auto layers = [](auto& c) { _val(c) = x3::get<Depth>(c).get().layers; };
constexpr auto addition = [](auto& c) { _val(c) = x3::get<Depth>(c).get().addition; };

/// A number without a sign of its own: "2L" is a product, "2-1" a difference.
struct Unsigned : x3::ureal_policies<double> {};
const x3::real_parser<double, Unsigned> number;

const auto sum_def = (('-' >> product[([](auto& c) { _val(c) = -_attr(c); })]) | product[is_it]) >>
                     *(('+' >> product[add]) | ('-' >> product[subtract]));
const auto product_def = power[is_it] >> *(('*' >> power[multiply]) | ('/' >> power[divide]) | power[multiply]);
const auto power_def = factor[is_it] >> -('^' >> factor[raise]);
const auto factor_def = number[is_it] | ("sqrt" >> x3::lit('(') >> sum[root] >> ')') | ('(' >> sum[is_it] >> ')') |
                        x3::lit('L')[layers] | x3::lit('l')[addition];

BOOST_SPIRIT_DEFINE(sum, product, power, factor)

std::optional<double> value_of(const std::string& text, Depth depth) {
  double value = std::numeric_limits<double>::quiet_NaN();
  auto at = text.begin();
  const auto with_depth = x3::with<Depth>(std::ref(depth))[sum];
  const bool fits = x3::phrase_parse(at, text.end(), with_depth, x3::space, value) && at == text.end();
  return fits ? std::optional(value) : std::nullopt;
}

}  // namespace
}  // namespace grammar

std::optional<DepthExpression> DepthExpression::parse(const std::string& text) {
  constexpr std::size_t longest = 200;  // parentheses nest the parser
  if (text.size() > longest || !grammar::value_of(text, {1.0, 0.0})) return std::nullopt;
  DepthExpression expression(0.0);
  expression.text_ = text;
  return expression;
}

double DepthExpression::at(int l, int layers) const {
  if (text_.empty()) return value_;
  return grammar::value_of(text_, {static_cast<double>(layers), static_cast<double>(l)}).value();
}

}  // namespace periscope
