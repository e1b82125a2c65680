#pragma once

#include <optional>
#include <string>

namespace periscope {

/// A number that may depend on depth: an expression in L, the layers of a stack, and l, the additions to its stream
/// before this one, from 0. "2L", "(2L)^0.25", "1/sqrt(l+1)": + − * / ^, parentheses, sqrt, and products without a
/// sign.
class DepthExpression {
 public:
  DepthExpression(double value) : value_(value) {}  // NOLINT(google-explicit-constructor): a number is the usual case
  /// Nothing for what is no such expression.
  static std::optional<DepthExpression> parse(const std::string& text);

  [[nodiscard]] double at(int l, int layers) const;
  /// The number; nullopt for an expression.
  [[nodiscard]] std::optional<double> number() const { return text_.empty() ? std::optional(value_) : std::nullopt; }
  /// As it was written; "" for a number.
  [[nodiscard]] const std::string& text() const { return text_; }

  bool operator==(const DepthExpression&) const = default;

 private:
  double value_;
  std::string text_ = {};
};

}  // namespace periscope
