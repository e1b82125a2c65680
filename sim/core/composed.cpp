#include "sim/core/composed.h"

namespace periscope {

void ComposedBackend::do_gated(Activation kind, const Tensor& gate, const Tensor& up, Tensor& y) const {
  do_multiply(activate(kind, gate), up, y);
}

void ComposedBackend::do_gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy,
                                        GatedGradient& g) const {
  do_multiply(activate_backward(kind, gate, up), dy, g.dgate);
  do_multiply(activate(kind, gate), dy, g.dup);
}

void ComposedBackend::do_rope_backward(const Tensor& dy, int heads, int sequences, std::span<const double> frequencies,
                                       Tensor& dx) const {
  std::vector<double> negated(frequencies.begin(), frequencies.end());
  for (double& f : negated) f = -f;
  do_rope(dy, heads, sequences, negated, dx);
}

}  // namespace periscope
