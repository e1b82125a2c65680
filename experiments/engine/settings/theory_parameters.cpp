#include "experiments/engine/settings/theory_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/base/error.h"
#include "sim/model/parameters.h"

namespace periscope::config {
namespace {

theory::RowMatrix matrix_of(const std::vector<double>& values, const Tensor& x) {
  return Eigen::Map<const theory::RowMatrix>(values.data(), x.rows(), x.cols());
}

}  // namespace

std::string TheoryParameters::entry_name(const ParameterId& id, Eigen::Index entry) const {
  return names_ ? names_(id, entry) : fmt::format("{}: entry {}", name_of(id), entry);
}

std::vector<double> TheoryParameters::numbers(const Tensor& x, const ParameterId& id, Eigen::Index first) const {
  std::vector<double> values = backend_.to_host(x);
  // A norm hides what is not a number behind a finite bound, so such weights must not get that far.
  const auto bad = std::ranges::find_if(values, [](double v) { return !std::isfinite(v); });
  if (bad == values.end()) {
    const bool is_default = id.part == ParameterId::Part::alpha && values.front() == 1.0;  // as without an alpha
    if (digest_ != nullptr && !is_default) digest_->add(values.data(), values.size() * sizeof(double));
    return values;
  }
  throw InputError(fmt::format("{} is {}: expected finite weights, no others can be certified",
                               entry_name(id, first + (bad - values.begin())), *bad));
}

theory::RowMatrix TheoryParameters::matrix(int layer, Weight weight) const {
  const ParameterId id = matrix_id(layer, weight);
  const Tensor w = tensor(id);
  return matrix_of(numbers(w, id), w);
}

void TheoryParameters::visit_rows(Weight weight, const BlockVisitor& visit) const {
  constexpr Tensor::Index block = 4096;
  const ParameterId id = matrix_id(0, weight);
  const Tensor table = tensor(id);
  for (Tensor::Index at = 0; at < table.rows(); at += block) {
    std::vector<int> rows(static_cast<std::size_t>(std::min(block, table.rows() - at)));
    std::iota(rows.begin(), rows.end(), static_cast<int>(at));
    const Tensor part = backend_.gather(table, rows);
    visit(at, matrix_of(numbers(part, id, at * table.cols()), part));
  }
}

Eigen::VectorXd TheoryParameters::bias(int layer, Weight weight) const {
  const ParameterId id = bias_of(matrix_id(layer, weight));
  return vector(tensor(id), id);
}

theory::NormParameters TheoryParameters::norm(int sublayer, Weight norm) const {
  const ParameterId id = gain_id(sublayer, norm);
  const NormWeights w = weights_.fetch(fetched_with(model_, id)).norm(norm);
  return {vector(w.gain, id), vector(w.bias, bias_of(id)), w.plus,
          w.alpha.empty() ? 1.0 : vector(w.alpha, alpha_of(id))[0]};
}

Eigen::VectorXd TheoryParameters::vector(const Tensor& x, const ParameterId& id) const {
  if (x.empty()) return {};
  const std::vector<double> values = numbers(x, id);
  return Eigen::Map<const Eigen::VectorXd>(values.data(), x.size());
}

}  // namespace periscope::config
