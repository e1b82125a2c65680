#include <cmath>

#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

template <class T>
void adamw(AdamState& state, const T* gradient, const AdamRule& rule) {
  T* parameter = elements<T>(state.parameter);
  T* mean = elements<T>(state.mean);
  T* square = elements<T>(state.square);
  const double steps = static_cast<double>(rule.step);
  const T beta1 = static_cast<T>(rule.beta1);
  const T beta2 = static_cast<T>(rule.beta2);
  const T new_mean = static_cast<T>(1.0 - rule.beta1);
  const T new_square = static_cast<T>(1.0 - rule.beta2);
  const T scale = static_cast<T>(rule.gradient_scale);
  const T keep = static_cast<T>(1.0 - rule.decay);
  const T rate = static_cast<T>(rule.rate / (1.0 - std::pow(rule.beta1, steps)));
  const T root_scale = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(rule.beta2, steps)));
  const T eps = static_cast<T>(rule.eps);
  for_chunks(state.parameter.size(), [&](Index first, Index count) {
    const ConstRow<T> g(gradient + first, count);
    Row<T> m(mean + first, count);
    Row<T> v(square + first, count);
    Row<T> p(parameter + first, count);
    m = beta1 * m + new_mean * (scale * g);
    v = beta2 * v + new_square * (scale * g).square();  // scaled first: g² may be beyond the type
    p = keep * p - rate * m / (root_scale * v.sqrt() + eps);
  });
}

}  // namespace
}  // namespace cpu

void CpuBackend::run(const op::Adamw& o) const {
  cpu::with_type_of(o.gradient, [&]<class T>(T) { cpu::adamw(o.state, elements<T>(o.gradient), o.rule); });
}

}  // namespace periscope
