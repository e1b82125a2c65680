#include <cmath>
#include <functional>
#include <map>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"
#include "tests/support/twin.h"

/// Properties of every op of the op table; other files test single ops in more detail.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;

TEST_CASE("every op of the op table has a test case") {
  REQUIRE(op_cases().size() == op_table.size());
  for (std::size_t i = 0; i < op_table.size(); ++i) CHECK(op_cases()[i].op.name == op_table[i].name);
}

TEST_CASE("every op matches the reference and returns the dtype of the op table, on every backend" *
          doctest::test_suite("slow")) {
  for (const Target& target : targets_of_every_dtype()) {
    const OpInputs here = inputs_on(target);
    const OpInputs there = inputs_on_truth(target);
    for (const OpCase& c : op_cases()) {
      const std::string name = target.name() + " " + std::string(c.op.name);
      CAPTURE(name);
      const OpResult result = c.run(here);
      check_close_to_scale(name, values_of(result, *target.backend), values_of(c.run(there), truth()),
                           allowed_error(c, target.dtype));
      CHECK(result.tensors.size() + result.numbers.size() > 0);
      const DType expected = c.op.output == OutputType::f64 ? DType::f64 : target.dtype;
      for (const Tensor& x : result.tensors) CHECK(x.dtype() == expected);
    }
  }
}

/// Relative error by op for the sum 1e8 + 1 − 1e8 or 1 + 2^14 · 2^−25. A sum in f32 would lose the small terms.
std::map<std::string_view, double> errors_of_sums(const Target& target) {
  const Backend& ops = *target.backend;
  const Tensor across = twin_of(target, 1, 3, std::vector<double>{1e8, 1.0, -1e8}).here;
  const Tensor down = twin_of(target, 3, 1, std::vector<double>{1e8, 1.0, -1e8}).here;
  const Tensor ones = ops.constant(1, 3, target.dtype, 1.0);
  std::vector<double> values(std::size_t{1} + (1U << 14U), -25.0 * std::log(2.0));
  values[0] = 0.0;
  const Tensor logits = twin_of(target, 1, static_cast<Index>(values.size()), values).here;
  const Tensor two_rows = twin_of(target, 2, 3, std::vector<double>{1.0, 1.0, 1.0, 1e8, 1.0, -1e8}).here;
  const double tail = std::log1p(0x1p-11);  // f32 rounds the logits by up to 1e-6
  return {
      {op::ColumnSums::facts.name, ops.to_host(ops.column_sums(down))[0] - 1.0},
      {op::RowBasis::facts.name, std::sqrt(3.0) * ops.to_host(ops.row_basis(two_rows).lower)[2] - 1.0},
      // The mean is 1/3, and the standard deviation is 1e8·√(2/3).
      {op::Norm::facts.name,
       ops.to_host(ops.norm(NormKind::layer, across, ones, {}, 0.0))[1] / (2.0 / 3.0 * std::sqrt(1.5) * 1e-8) - 1.0},
      {op::NormBackward::facts.name, ops.to_host(ops.norm_backward(NormKind::rms, ops.constant(3, 1, target.dtype, 2.0),
                                                                   ops.constant(1, 1, target.dtype, 1.0), down, 0.0)
                                                     .dbias)[0] -
                                         1.0},
      {op::CrossEntropy::facts.name, ops.cross_entropy(logits, std::vector<int>{0}).loss / tail - 1.0},
      {op::TokenLosses::facts.name, ops.token_losses(logits, std::vector<int>{0})[0] / tail - 1.0},
      {op::Measure::facts.name, 3.0 * ops.row_moments(across)[Statistic::mean][0] - 1.0},
  };
}

TEST_CASE("ops that accumulate in double preserve terms that a sum in f32 would lose") {
  for (const Target& target : targets()) {
    const std::map<std::string_view, double> errors = errors_of_sums(target);
    for (const OpFacts& row : op_table) {
      CAPTURE(row.name);
      CHECK((row.accumulation == Accumulation::in_double) == errors.contains(row.name));
      if (errors.contains(row.name)) CHECK(std::abs(errors.at(row.name)) < 1e-5);
    }
  }
}

TEST_CASE("every op rejects invalid arguments with a message that names the op") {
  const auto check = [](const OpInputs& in) {
    for (const OpCase& c : op_cases()) {
      const std::string name = "[" + std::string(c.op.name) + "]";
      CHECK_THROWS_WITH_AS(c.misuse(in), doctest::Contains(name.c_str()), std::invalid_argument);
    }
  };
  check(inputs_on_truth(truth_target()));
  for (const Target& target : targets_of_every_dtype()) check(inputs_on(target));
}

TEST_CASE("inconsistent arguments are rejected; the message names the op and the argument") {
  const Backend& ops = truth();
  const Tensor x = ops.constant(6, 8, DType::f64, 1.0);
  const Tensor gain = ops.constant(1, 8, DType::f64, 1.0);
  const Tensor alpha = ops.constant(1, 1, DType::f64, 1.0);
  const Tensor other_device(1, 1, DType::f64, Device::cuda, std::make_shared<double>(1.0));
  const std::vector<int> ids{0, 1, 2, 3, -1, 0}, labels{0, 1, no_label, 3, 4, -2};
  constexpr AttentionShape heads{3, 2, 4, 1, true}, sequences{2, 2, 4, 4, true};
  constexpr AttentionShape offset_3{1, 1, 8, 1, true, {}, 3}, offset_2{1, 1, 8, 1, true, {}, 2};
  const StatisticsRequest of_4_sequences{.cosine_of_sequences = 4};
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"[norm] gain", [&] { (void)ops.norm(NormKind::rms, x, gain, {}, 0.0, 2); }},
      {"[norm] x", [&] { (void)ops.norm(NormKind::rms, x, gain, {}, 0.0, 3); }},
      {"[norm] bias", [&] { (void)ops.norm(NormKind::layer, x, gain, x, 0.0); }},
      {"alpha", [&] { (void)ops.norm(NormKind::rms, x, gain, {}, 0.0, 1, alpha); }},
      {"[norm] alpha", [&] { (void)ops.norm(NormKind::dyt, x, gain, {}, 0.0); }},
      {"[norm_backward] alpha", [&] { (void)ops.norm_backward(NormKind::derf, x, gain, x, 0.0, 1, gain); }},
      {"[attention] 3 query heads", [&] { (void)ops.attention(x, x, x, heads); }},
      {"[attention] q", [&] { (void)ops.attention(x, x, x, sequences); }},
      {"offset 3", [&] { (void)ops.attention(x, x, x, offset_3); }},
      {"offset 2", [&] { (void)ops.attention_backward(x, x, x, x, offset_2); }},
      {"[rope] offset", [&] { (void)ops.rope(x, 1, 1, rope_frequencies(8, 100.0), -1); }},
      {"[scatter_add] ids", [&] { (void)ops.scatter_add(x, ids, 4); }},
      {"[cross_entropy] labels", [&] { (void)ops.cross_entropy(x, labels); }},
      {"[measure] x", [&] { (void)ops.statistics_of(x, of_4_sequences); }},
      {"f32", [&] { (void)ops.constant(1, 1, DType::f32, 0.0); }},
      {"cuda", [&] { (void)ops.linear(alpha, other_device); }}};
  for (const auto& [part, call] : calls) CHECK_THROWS_WITH_AS(call(), doctest::Contains(part), std::invalid_argument);
  for (const Target& target : targets()) {
    if (target.dtype != DType::f32) continue;
    const Tensor w = target.backend->constant(2, 3, DType::f32, 1.0);
    const Tensor f64 = target.backend->constant(2, 3, DType::f64, 1.0);
    CHECK_THROWS_WITH_AS((void)target.backend->linear(f64, w), doctest::Contains("f32"), std::invalid_argument);
  }
}

TEST_CASE("fused kernels give the same bits as the composed ops") {
  for (const Target& target : targets_of_every_dtype()) {
    const OpInputs in = inputs_on(target);
    const auto host = [&](const Tensor& x) { return in.ops.to_host(x); };
    for (const Activation kind :
         {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh, Activation::sigmoid}) {
      check_same_bits(target.name() + " gated", host(in.ops.gated(kind, in.x, in.y)),
                      host(in.ops.multiply(in.ops.activate(kind, in.x), in.y)));
      const GatedGradient g = in.ops.gated_backward(kind, in.x, in.y, in.x);
      check_same_bits(target.name() + " dup", host(g.dup), host(in.ops.multiply(in.ops.activate(kind, in.x), in.x)));
      check_same_bits(target.name() + " dgate", host(g.dgate),
                      host(in.ops.multiply(in.ops.activate_backward(kind, in.x, in.x), in.y)));
    }
  }
}

}  // namespace
}  // namespace periscope::testing
