#include "experiments/certify/theory_parameters.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace periscope {
namespace {

theory::RowMatrix host_matrix(const Backend& backend, const Tensor& x) {
  const std::vector<double> values = backend.to_host(x);
  return Eigen::Map<const theory::RowMatrix>(values.data(), x.rows(), x.cols());
}

}  // namespace

theory::RowMatrix TheoryParameters::matrix(int layer, Weight weight) const {
  return host_matrix(backend_, weights_.matrix(layer, weight));
}

void TheoryParameters::visit_rows(Weight weight, const BlockVisitor& visit) const {
  constexpr Tensor::Index block = 4096;
  const Tensor table = weights_.matrix(0, weight);
  for (Tensor::Index at = 0; at < table.rows(); at += block) {
    std::vector<int> rows(static_cast<std::size_t>(std::min(block, table.rows() - at)));
    std::iota(rows.begin(), rows.end(), static_cast<int>(at));
    visit(at, host_matrix(backend_, backend_.gather(table, rows)));
  }
}

Eigen::VectorXd TheoryParameters::bias(int layer, Weight weight) const { return vector(weights_.bias(layer, weight)); }

theory::NormParameters TheoryParameters::norm(int sublayer, NormSite site) const {
  const NormWeights w = weights_.norm(sublayer, site);
  return {vector(w.gain), vector(w.bias)};
}

Eigen::VectorXd TheoryParameters::vector(const Tensor& x) const {
  if (x.empty()) return {};
  const std::vector<double> values = backend_.to_host(x);
  return Eigen::Map<const Eigen::VectorXd>(values.data(), x.size());
}

}  // namespace periscope
