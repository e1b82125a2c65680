#include "experiments/engine/settings/theory_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/base/error.h"
#include "sim/model/parameters.h"

namespace periscope::config {

std::string TheoryParameters::entry_name(const ParameterId& id, Eigen::Index entry) const {
  return names_ ? names_(id, entry) : fmt::format("{}: entry {}", name_of(id), entry);
}

theory::RowMatrix TheoryParameters::numbers(const Tensor& x, const ParameterId& id, Eigen::Index first) const {
  const std::vector<double> values = backend_.to_host(x);
  // Checked here because a norm's bound is finite even if its input is inf or NaN.
  const auto bad = std::ranges::find_if(values, [](double v) { return !std::isfinite(v); });
  if (bad != values.end()) {
    throw InputError(
        fmt::format("{} = {}: expected finite weights", entry_name(id, first + (bad - values.begin())), *bad));
  }
  const bool is_default = id.part == ParameterId::Part::alpha && values.front() == 1.0;  // hashed like a missing alpha
  if (digest_ != nullptr && !is_default) digest_->add(values.data(), values.size() * sizeof(double));
  return Eigen::Map<const theory::RowMatrix>(values.data(), x.rows(), x.cols());
}

theory::RowMatrix TheoryParameters::matrix(const ParameterId& id) const { return numbers(tensor(id), id); }

void TheoryParameters::visit_rows(Weight weight, const BlockVisitor& visit) const {
  constexpr Tensor::Index block = 4096;
  const ParameterId id = matrix_id(0, weight);
  const Tensor table = tensor(id);
  for (Tensor::Index at = 0; at < table.rows(); at += block) {
    std::vector<int> rows(static_cast<std::size_t>(std::min(block, table.rows() - at)));
    std::iota(rows.begin(), rows.end(), static_cast<int>(at));
    visit(at, numbers(backend_.gather(table, rows), id, at * table.cols()));
  }
}

Eigen::VectorXd TheoryParameters::bias(int layer, Weight weight) const {
  const ParameterId id = bias_of(matrix_id(layer, weight));
  return vector(tensor(id), id);
}

theory::NormParameters TheoryParameters::norm(int sublayer, Weight norm) const {
  const ParameterId id = gain_id(sublayer, norm);
  const NormWeights w = weights_.fetch(owner_sublayer(model_, id)).norm(norm);
  return {vector(w.gain, id), vector(w.bias, bias_of(id)), w.plus,
          w.alpha.empty() ? 1.0 : vector(w.alpha, alpha_of(id))[0]};
}

Eigen::VectorXd TheoryParameters::vector(const Tensor& x, const ParameterId& id) const {
  return x.empty() ? Eigen::VectorXd() : Eigen::VectorXd(numbers(x, id).reshaped<Eigen::RowMajor>());
}

}  // namespace periscope::config
