#include "tests/support/twin.h"

#include <cmath>

namespace periscope::testing {
namespace {

Twin twin_from(const Target& target, Tensor here) {
  Tensor truth_tensor = truth().from_host(here.rows(), here.cols(), DType::f64, target.backend->to_host(here));
  return {std::move(here), std::move(truth_tensor)};
}

}  // namespace

Twin normal_twin(const Target& target, Tensor::Index rows, Tensor::Index cols, std::uint32_t stream, double stddev) {
  constexpr std::uint64_t seed = 20240229;
  return twin_from(target, target.backend->normal(rows, cols, target.dtype, {seed, 0, Stream{stream}}, stddev));
}

Twin twin_of(const Target& target, Tensor::Index rows, Tensor::Index cols, std::span<const double> values) {
  return twin_from(target, target.backend->from_host(rows, cols, target.dtype, values));
}

Tensor magnitude(const Tensor& x) {
  std::vector<double> values = truth().to_host(x);
  for (double& v : values) v = std::abs(v);
  return truth().from_host(x.rows(), x.cols(), DType::f64, values);
}

std::vector<double> scaled(double factor, std::vector<double> values) {
  for (double& v : values) v *= factor;
  return values;
}

}  // namespace periscope::testing
