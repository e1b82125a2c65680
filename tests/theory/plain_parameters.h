#pragma once

#include <map>
#include <string>
#include <utility>

#include "theory/certify/parameters.h"

namespace periscope::theory {

/// Parameters given by a test. A missing norm has gain 1 and the required width.
struct PlainParameters : Parameters {
  std::map<std::pair<int, Weight>, RowMatrix> matrices;
  std::map<std::pair<int, Weight>, Eigen::VectorXd> biases;
  std::map<std::pair<int, Weight>, NormParameters> norms;

  [[nodiscard]] RowMatrix matrix(const ParameterId& id) const override { return matrices.at({id.layer(), id.weight}); }
  void visit_rows(Weight weight, const BlockVisitor& visit) const override { visit(0, matrices.at({0, weight})); }
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override {
    const auto at = biases.find({layer, weight});
    return at == biases.end() ? Eigen::VectorXd() : at->second;
  }
  [[nodiscard]] NormParameters norm(int sublayer, Weight weight) const override { return norms.at({sublayer, weight}); }
  [[nodiscard]] std::string entry_name(const ParameterId&, Eigen::Index) const override { return "a weight"; }
};

}  // namespace periscope::theory
