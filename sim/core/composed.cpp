#include "sim/core/composed.h"

namespace periscope {

void ComposedBackend::do_cast(const Tensor& x, Tensor& y) const { do_from_host(to_host(x), y); }

void ComposedBackend::do_linear_weight_square(const Tensor& dy, const Tensor& x, Tensor& square) const {
  const Tensor rows = measure(linear_backward_weight(dy, x), {.squares = true});
  do_linear(rows, constant(1, rows.cols(), DType::f64, 1.0), square);
}

void ComposedBackend::do_linear_drawn(const Tensor& x, const DrawnMatrix& w, Tensor& y) const {
  do_linear(x, normal(w.rows, w.cols, x.dtype(), w.key, w.stddev), y);
}

void ComposedBackend::do_linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w, Tensor& dx) const {
  do_linear_backward_input(dy, normal(w.rows, w.cols, dy.dtype(), w.key, w.stddev), dx);
}

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
  do_rope(dy, heads, sequences, negated, 0, dx);
}

}  // namespace periscope
