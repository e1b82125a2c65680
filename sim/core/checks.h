#pragma once

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string_view>

#include "sim/core/backend.h"

namespace periscope {

/// Prints as [16, 64], with * for `any`: [*, 64].
struct Shape {
  static constexpr Tensor::Index any = -1;
  Tensor::Index rows, cols;
};

[[nodiscard]] inline Shape shape_of(const Tensor& x) { return {x.rows(), x.cols()}; }

}  // namespace periscope

template <>
struct fmt::formatter<periscope::Shape> : fmt::formatter<std::string_view> {
  format_context::iterator format(const periscope::Shape& shape, format_context& context) const;
};

namespace periscope {

/// Validates the arguments of one op. Invalid arguments are programming errors: they throw std::invalid_argument, e.g.
/// "[norm] gain must be [1, 64], found [1, 32] for x [16, 64]".
class Checks {
 public:
  struct Operand {
    std::string_view name;
    const Tensor& tensor;
  };
  using Index = Tensor::Index;
  static constexpr Index any = Shape::any;

  /// Requires every operand to be nonempty and on the backend's device, with one dtype that the backend supports.
  Checks(const Backend& ops, const OpFacts& op, std::initializer_list<Operand> operands);

  /// Requires a shape; `remark` is appended to the message.
  void shape(std::string_view name, const Tensor& tensor, Index rows, Index cols, std::string_view remark = {}) const {
    const bool fits = (rows == any || tensor.rows() == rows) && (cols == any || tensor.cols() == cols);
    if (!fits) reject_shape(name, tensor, {rows, cols}, remark);
  }
  template <class... Values>
  void require(bool holds, fmt::format_string<Values...> sentence, Values&&... values) const {
    if (!holds) reject(fmt::format(sentence, std::forward<Values>(values)...));
  }
  /// Requires every number of `values` to be from 0 to end − 1, or equal to `other`.
  void range(std::string_view name, std::span<const int> values, Index end, int other = 0) const;
  [[noreturn]] void reject_shape(std::string_view name, const Tensor& tensor, Shape wanted,
                                 std::string_view remark) const;
  [[noreturn]] void reject(std::string_view sentence) const;

 private:
  struct Named {
    std::string_view name;
    const Tensor* tensor = nullptr;
  };
  std::string_view op_;
  std::size_t count_ = 0;
  std::array<Named, 4> operands_;
};

}  // namespace periscope
