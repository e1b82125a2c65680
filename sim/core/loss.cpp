#include "sim/core/checks.h"

namespace periscope {
namespace {

void check_labels(const Checks& check, const Tensor& logits, std::span<const int> labels) {
  check.shape("logits", logits, static_cast<Tensor::Index>(labels.size()), Checks::any, ": one row per label");
  check.range("labels", labels, logits.cols(), no_label);
}

}  // namespace

CrossEntropy Backend::cross_entropy(const Tensor& logits, std::span<const int> labels) const {
  const Checks check(*this, op::CrossEntropy::facts, {{"logits", logits}});
  check_labels(check, logits, labels);
  return run_into<op::CrossEntropy>(CrossEntropy{.loss = 0.0, .dlogits = like(logits)}, logits, labels);
}

std::vector<double> Backend::token_losses(const Tensor& logits, std::span<const int> labels) const {
  const Checks check(*this, op::TokenLosses::facts, {{"logits", logits}});
  check_labels(check, logits, labels);
  return to_host(run_into<op::TokenLosses>(do_allocate(1, logits.rows(), DType::f64), logits, labels));
}

}  // namespace periscope
