#include <cmath>

#include "sim/cpu/ops.h"
#include "sim/numerics/exact_sqrt.h"

namespace periscope {

void CpuBackend::run(const op::Adamw& o) const {
  const AdamRule& rule = o.rule;
  const double steps = static_cast<double>(rule.step);
  cpu::with_type_of(o.gradient, [&]<class T>(T) {
    const T beta1 = static_cast<T>(rule.beta1);
    const T beta2 = static_cast<T>(rule.beta2);
    const T new_mean = static_cast<T>(1.0 - rule.beta1);
    const T new_square = static_cast<T>(1.0 - rule.beta2);
    const T scale = static_cast<T>(rule.gradient_scale);
    const T keep = static_cast<T>(1.0 - rule.decay);
    const T rate = static_cast<T>(rule.rate / (1.0 - std::pow(rule.beta1, steps)));
    const T root_scale = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(rule.beta2, steps)));
    const T eps = static_cast<T>(rule.eps);
    cpu::for_chunks(o.gradient.size(), [&](Index first, Index count) {
      const cpu::ConstRow<T> g = cpu::chunk_of<T>(o.gradient, first, count);
      cpu::Row<T> m = cpu::chunk_of<T>(o.state.mean, first, count);
      cpu::Row<T> v = cpu::chunk_of<T>(o.state.square, first, count);
      cpu::Row<T> p = cpu::chunk_of<T>(o.state.parameter, first, count);
      m = beta1 * m + new_mean * (scale * g);
      v = beta2 * v + new_square * (scale * g).square();  // scale before squaring: g² may overflow
      p = keep * p - rate * m / (root_scale * v.unaryExpr(exact_sqrt) + eps);
    });
  });
}

}  // namespace periscope
