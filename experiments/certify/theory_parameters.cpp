#include "experiments/certify/theory_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/model/parameters.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

/// A norm hides what is not a number behind a finite bound, so such weights must not get that far.
void require_finite(const std::vector<double>& values, const std::string& name) {
  const auto bad = std::ranges::find_if(values, [](double v) { return !std::isfinite(v); });
  if (bad == values.end()) return;
  throw InputError(fmt::format("{}: entry {} is {}: expected finite weights, no others can be certified", name,
                               bad - values.begin(), *bad));
}

theory::RowMatrix host_matrix(const Backend& backend, const Tensor& x, const std::string& name) {
  const std::vector<double> values = backend.to_host(x);
  require_finite(values, name);
  return Eigen::Map<const theory::RowMatrix>(values.data(), x.rows(), x.cols());
}

}  // namespace

theory::RowMatrix TheoryParameters::matrix(int layer, Weight weight) const {
  return host_matrix(backend_, weights_.matrix(layer, weight), name_of(MatrixPlace{layer, weight}));
}

void TheoryParameters::visit_rows(Weight weight, const BlockVisitor& visit) const {
  constexpr Tensor::Index block = 4096;
  const Tensor table = weights_.matrix(0, weight);
  for (Tensor::Index at = 0; at < table.rows(); at += block) {
    std::vector<int> rows(static_cast<std::size_t>(std::min(block, table.rows() - at)));
    std::iota(rows.begin(), rows.end(), static_cast<int>(at));
    visit(at, host_matrix(backend_, backend_.gather(table, rows), name_of(MatrixPlace{0, weight})));
  }
}

Eigen::VectorXd TheoryParameters::bias(int layer, Weight weight) const {
  return vector(weights_.bias(layer, weight), bias_name_of(MatrixPlace{layer, weight}));
}

theory::NormParameters TheoryParameters::norm(int sublayer, NormSite site) const {
  const NormWeights w = weights_.norm(sublayer, site);
  const std::string name = name_of(NormPlace{sublayer, site});
  return {vector(w.gain, name + ".gain"), vector(w.bias, name + ".bias"), w.plus};
}

Eigen::VectorXd TheoryParameters::vector(const Tensor& x, const std::string& name) const {
  if (x.empty()) return {};
  const std::vector<double> values = backend_.to_host(x);
  require_finite(values, name);
  return Eigen::Map<const Eigen::VectorXd>(values.data(), x.size());
}

}  // namespace periscope
