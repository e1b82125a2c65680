#include "sim/core/checks.h"

#include <stdexcept>
#include <string>

fmt::format_context::iterator fmt::formatter<periscope::Shape>::format(const periscope::Shape& shape,
                                                                       format_context& context) const {
  const auto side = [](periscope::Tensor::Index n) { return n == periscope::Shape::any ? "*" : fmt::format("{}", n); };
  return fmt::format_to(context.out(), "[{}, {}]", side(shape.rows), side(shape.cols));
}

namespace periscope {

Checks::Checks(const Backend& ops, const OpFacts& op, std::initializer_list<Operand> operands) : op_(op.name) {
  for (const Operand& o : operands) operands_.at(count_++) = {o.name, &o.tensor};
  if (count_ == 0) return;
  const Operand& first = *operands.begin();
  for (const auto& [name, x] : operands) {
    require(!x.empty(), "{} is empty", name);
    if (x.device() != ops.device()) {
      reject(fmt::format("{} is in {} memory, expected {} memory of the backend {}", name, name_of(x.device()),
                         name_of(ops.device()), ops.name()));
    }
    require(x.dtype() == first.tensor.dtype(), "{} is {}, expected {} like {}", name, name_of(x.dtype()),
            name_of(first.tensor.dtype()), first.name);
  }
  if (!ops.supports(first.tensor.dtype())) {
    reject(fmt::format("the backend {} does not support {}", ops.name(), name_of(first.tensor.dtype())));
  }
}

void Checks::range(std::string_view name, std::span<const int> values, Index end, int other) const {
  for (const int v : values) {
    require((v >= 0 && v < end) || v == other, "{} must be from 0 to {}, found {}", name, end - 1, v);
  }
}

void Checks::reject_shape(std::string_view name, const Tensor& tensor, Shape wanted, std::string_view remark) const {
  std::string others;
  for (std::size_t i = 0; i < count_; ++i) {
    const auto& [other, x] = operands_[i];
    if (other == name) continue;
    others += fmt::format("{} {} {}", others.empty() ? " for" : ",", other, shape_of(*x));
  }
  reject(fmt::format("{} must be {}, found {}{}{}", name, wanted, shape_of(tensor), others, remark));
}

void Checks::reject(std::string_view sentence) const {
  throw std::invalid_argument(fmt::format("[{}] {}", op_, sentence));
}

}  // namespace periscope
