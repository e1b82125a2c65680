#include "sim/core/checks.h"
#include "sim/core/storage.h"

namespace periscope {

AdamState Backend::adamw(AdamState state, const Tensor& gradient, const AdamRule& rule) const {
  const Checks check(
      *this, op::Adamw::facts,
      {{"parameter", state.parameter}, {"mean", state.mean}, {"square", state.square}, {"gradient", gradient}});
  for (const auto& [name, x] :
       {Checks::Operand{"mean", state.mean}, {"square", state.square}, {"gradient", gradient}}) {
    check.shape(name, x, state.parameter.rows(), state.parameter.cols());
  }
  check.require(rule.step >= 1, "step must be at least 1, found {}", rule.step);
  for (Tensor* x : {&state.parameter, &state.mean, &state.square}) {
    if (!TensorMemory::is_sole_owner(*x)) *x = scale(1.0, *x);
  }
  perform(op::Adamw{state, gradient, rule});
  return state;
}

}  // namespace periscope
