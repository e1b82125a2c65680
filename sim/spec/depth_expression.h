#pragma once

#include <optional>
#include <string>

namespace periscope {

/// A constant, or an expression in L (the number of layers) and l (the number of earlier additions to the stream), such
/// as "2L", "(2L)^0.25" or "1/sqrt(l+1)". Supports + − * / ^, parentheses, sqrt and implicit products.
class DepthExpression {
 public:
  DepthExpression(double value) : value_(value) {}  // NOLINT(google-explicit-constructor): most callers have a constant
  /// Returns nullopt if `text` is not a valid expression.
  static std::optional<DepthExpression> parse(const std::string& text);

  [[nodiscard]] double at(int l, int layers) const;
  /// Returns the constant, or nullopt for an expression.
  [[nodiscard]] std::optional<double> number() const { return text_.empty() ? std::optional(value_) : std::nullopt; }
  /// Returns the source text of an expression, or "" for a constant.
  [[nodiscard]] const std::string& text() const { return text_; }

  bool operator==(const DepthExpression&) const = default;

 private:
  double value_;
  std::string text_ = {};
};

}  // namespace periscope
