#include <cmath>
#include <map>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"
#include "tests/support/twin.h"

/// What holds for every op of the table; the other files look at each one more closely.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;

TEST_CASE("every op of the table has a case") {
  REQUIRE(op_cases().size() == op_table.size());
  for (std::size_t i = 0; i < op_table.size(); ++i) CHECK(op_cases()[i].op.name == op_table[i].name);
}

TEST_CASE("every op agrees with the reference, on every backend and for every dtype") {
  for (const Target& target : targets()) {
    const OpInputs here = inputs_on(target);
    const OpInputs there = inputs_on_truth(target);
    for (const OpCase& c : op_cases()) {
      check_close_to_scale(target.name() + " " + std::string(c.op.name), values_of(c.run(here), *target.backend),
                           values_of(c.run(there), truth()), allowed_error(c, target.dtype));
    }
  }
}

TEST_CASE("every op returns the dtype that the table states") {
  for (const Target& target : targets()) {
    const OpInputs in = inputs_on(target);
    for (const OpCase& c : op_cases()) {
      CAPTURE(c.op.name);
      const DType stated = c.op.output == OutputType::f64 ? DType::f64 : target.dtype;
      const OpResult result = c.run(in);
      CHECK(result.tensors.size() + result.numbers.size() > 0);
      for (const Tensor& x : result.tensors) CHECK(x.dtype() == stated);
    }
  }
}

/// Sums whose terms are 1e8, 1 and −1e8, or 1 and 2^14 times 2^−25: a sum in f32 has nothing left of the small ones.
std::map<std::string_view, double> sums_of_large_and_small(const Target& target) {
  const Backend& ops = *target.backend;
  const Tensor across = twin_of(target, 1, 3, std::vector<double>{1e8, 1.0, -1e8}).here;
  const Tensor down = twin_of(target, 3, 1, std::vector<double>{1e8, 1.0, -1e8}).here;
  const Tensor ones = ops.constant(1, 3, target.dtype, 1.0);
  std::vector<double> values(std::size_t{1} + (1U << 14U), -25.0 * std::log(2.0));
  values[0] = 0.0;
  const Tensor logits = twin_of(target, 1, static_cast<Index>(values.size()), values).here;
  const Tensor two_rows = twin_of(target, 2, 3, std::vector<double>{1.0, 1.0, 1.0, 1e8, 1.0, -1e8}).here;
  const double tail = std::log1p(0x1p-11);  // the logits are off by up to 1e-6 in f32
  return {
      {op::ColumnSums::facts.name, ops.to_host(ops.column_sums(down))[0] - 1.0},
      {op::RowBasis::facts.name, std::sqrt(3.0) * ops.to_host(ops.row_basis(two_rows).lower)[2] - 1.0},
      // the mean is 1/3
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

TEST_CASE("an op that adds up in double keeps what a sum in f32 would lose") {
  for (const Target& target : targets()) {
    const std::map<std::string_view, double> errors = sums_of_large_and_small(target);
    for (const OpFacts& row : op_table) {
      CAPTURE(row.name);
      CHECK((row.accumulation == Accumulation::in_double) == errors.contains(row.name));
      if (errors.contains(row.name)) CHECK(std::abs(errors.at(row.name)) < 1e-5);
    }
  }
}

TEST_CASE("every op refuses what does not fit, and says its name and the shapes") {
  const auto check = [](const OpInputs& in) {
    for (const OpCase& c : op_cases()) {
      CHECK_THROWS_WITH_AS(c.misuse(in), c.complaint.c_str(), std::invalid_argument);
    }
  };
  check(inputs_on_truth(truth_target()));
  for (const Target& target : targets()) check(inputs_on(target));
}

TEST_CASE("more that does not fit") {
  const Backend& ops = truth();
  const Tensor x = ops.constant(6, 8, DType::f64, 1.0);
  const Tensor gain = ops.constant(1, 8, DType::f64, 1.0);
  const auto refuses = [](const auto& call, const char* complaint) {
    CHECK_THROWS_WITH_AS(call(), complaint, std::invalid_argument);
  };
  refuses([&] { (void)ops.norm(NormKind::rms, x, gain, {}, 0.0, 2); },
          "[norm] gain must be [1, 4], found [1, 8] for x [6, 8] with 2 groups, which share one gain");
  refuses([&] { (void)ops.norm(NormKind::rms, x, gain, {}, 0.0, 3); },
          "[norm] x [6, 8] cannot be split into 3 groups of equal width");
  refuses([&] { (void)ops.norm(NormKind::layer, x, gain, x, 0.0); },
          "[norm] bias must be [1, 8], found [6, 8] for x [6, 8], gain [1, 8]");
  refuses(
      [&] {
        (void)ops.attention(x, x, x, {3, 2, 4, 1, true});
      },
      "[attention] 3 query heads cannot share 2 key/value heads of width 4");
  refuses(
      [&] {
        (void)ops.attention(x, x, x, {2, 2, 4, 4, true});
      },
      "[attention] q [6, 8] cannot be split into 4 sequences of equal length");
  refuses(
      [&] {
        (void)ops.scatter_add(x, std::vector<int>{0, 1, 2, 3, -1, 0}, 4);
      },
      "[scatter_add] ids must be from 0 to 3, found -1");
  refuses(
      [&] {
        (void)ops.cross_entropy(x, std::vector<int>{0, 1, no_label, 3, 4, -2});
      },
      "[cross_entropy] labels must be from 0 to 7, found -2");
  refuses([&] { (void)ops.statistics_of(x, {.cosine_of_sequences = 4}); },
          "[measure] x [6, 8] cannot be split into 4 sequences of equal length");
  refuses([&] { (void)ops.constant(1, 1, DType::f32, 0.0); }, "[constant] the backend reference does not support f32");
}

TEST_CASE("tensors of another dtype or device are refused") {
  for (const Target& target : targets()) {
    if (target.dtype != DType::f32) continue;
    const Backend& ops = *target.backend;
    const Tensor x = ops.constant(2, 3, DType::f64, 1.0);
    const Tensor w = ops.constant(2, 3, DType::f32, 1.0);
    CHECK_THROWS_WITH_AS((void)ops.linear(x, w), "[linear] w is f32, expected f64 like x", std::invalid_argument);
  }
  const Tensor x = truth().constant(1, 1, DType::f64, 1.0);
  const Tensor elsewhere(1, 1, DType::f64, Device::cuda, std::make_shared<double>(1.0));
  CHECK_THROWS_WITH_AS((void)truth().linear(x, elsewhere),
                       "[linear] w is in cuda memory, expected host memory of the backend reference",
                       std::invalid_argument);
}

TEST_CASE("a kernel of its own does what the composition of other ops does") {
  std::vector<Target> all = targets();
  all.insert(all.end(), narrow_targets().begin(), narrow_targets().end());
  for (const Target& target : all) {
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
