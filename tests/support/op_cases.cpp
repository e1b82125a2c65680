#include "tests/support/op_cases.h"

#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using In = const OpInputs&;
constexpr StreamKey key{1, 2, Stream{3}};
const std::vector<int> gathered{3, 66, 3}, out_of_range{0, 67}, two_ids{0, 1};
const std::vector<double> three{0.1, -2.0, 3.0};
constexpr DrawnMatrix drawn{.rows = 1031, .cols = 516, .key = {1, 2, Stream{4}}, .stddev = 1.0};
constexpr AttentionShape shape{
    .heads = 4, .kv_heads = 2, .head_dim = 129, .sequences = 1, .causal = true, .scores = {}};

std::vector<double> frequencies() { return rope_frequencies(258, 10000.0); }

/// Returns indices below 11 for 67 rows.
std::vector<int> ids() {
  std::vector<int> numbers;
  for (int t = 0; t < 67; ++t) numbers.push_back(t * t % 11);
  return numbers;
}

std::vector<int> labels() {
  std::vector<int> numbers;
  for (int t = 0; t < 67; ++t) numbers.push_back(t % 5 == 4 ? no_label : 7 * t);
  return numbers;
}

OpResult statistics(In in) {
  const StatisticsRequest request{.moments = true,
                                  .squares = true,
                                  .dots_with = in.y,
                                  .cosine_of_sequences = 1,
                                  .top_magnitudes = 100,
                                  .top_entries = 20,
                                  .median_magnitude = true,
                                  .column_maxima = true};
  return in.ops.measure(in.x, request);
}

template <class Pick>
OpInputs inputs(const Backend& ops, const Target& target, const Pick& pick) {
  return {.ops = ops,
          .dtype = &ops == &truth() ? DType::f64 : target.dtype,
          .x = pick(normal_twin(target, 67, 516, 50)),
          .y = pick(normal_twin(target, 67, 516, 51)),
          .w = pick(normal_twin(target, 1031, 516, 52)),
          .kv = pick(normal_twin(target, 67, 258, 54)),
          .row = pick(normal_twin(target, 1, 516, 55)),
          .gain = pick(normal_twin(target, 1, 129, 53))};
}

// A logit is a sum of 129 products with a total magnitude of about 9. Its error enters an attention weight twice
// and a gradient six times.
constexpr double attention_terms = 4.0 * 133.0 * 12.0;

std::vector<OpCase> make_cases() {
  return {
      {op::Constant::facts, [](In in) { return in.ops.constant(31, 33, in.dtype, 0.1); }, 1, 1,
       [](In in) { (void)in.ops.constant(-3, 2, in.dtype, 0.0); }},
      {op::FromHost::facts, [](In in) { return in.ops.from_host(1, 3, in.dtype, three); }, 1, 1,
       [](In in) { (void)in.ops.from_host(2, 3, in.dtype, std::vector<double>(5, 0.0)); }},
      {op::FromRows::facts,
       [](In in) -> OpResult {
         return {
             {in.ops.from_rows(700, 1031, in.dtype, []<class T>(Tensor::Index first, Tensor::Index, std::span<T> v) {
               for (std::size_t i = 0; i < v.size(); ++i) {
                 v[i] = static_cast<T>(static_cast<double>((static_cast<std::size_t>(first) * 1031 + i) % 97) / 96.0);
               }
             })}};
       },
       1, 1, [](In in) { (void)in.ops.from_rows(2, -3, in.dtype, [](auto, auto, auto) {}); }},
      {op::ToHost::facts,
       [](In in) -> OpResult {
         return {{}, in.ops.to_host(in.x)};
       },
       1, 1, [](In in) { (void)in.ops.to_host(Tensor{}); }},
      {op::Normal::facts, [](In in) { return in.ops.normal(257, 1031, in.dtype, key, 1.0); }, 1, 1,
       [](In in) { (void)in.ops.normal(2, -3, in.dtype, key, 1.0); }},
      {op::Cast::facts, [](In in) { return in.ops.cast(in.x, in.dtype); }, 1, 1,
       [](In in) { (void)in.ops.cast({}, in.dtype); }},
      {op::Linear::facts, [](In in) { return in.ops.linear(in.x, in.w); }, 516, 4,
       [](In in) { (void)in.ops.linear(in.x, in.kv); }},
      {op::LinearBackwardInput::facts,
       [](In in) { return in.ops.linear_backward_input(in.ops.linear(in.x, in.w), in.w); }, 1031, 8,
       [](In in) { (void)in.ops.linear_backward_input(in.x, in.kv); }},
      {op::LinearBackwardWeight::facts, [](In in) { return in.ops.linear_backward_weight(in.x, in.kv); }, 67, 4,
       [](In in) { (void)in.ops.linear_backward_weight(in.x, in.w); }},
      // Squaring sums of 67 products doubles their relative error.
      {op::LinearWeightSquare::facts, [](In in) { return in.ops.linear_weight_square(in.x, in.kv); }, 134, 4,
       [](In in) { (void)in.ops.linear_weight_square(in.x, in.w); }},
      {op::LinearDrawn::facts, [](In in) { return in.ops.linear_drawn(in.x, drawn); }, 516, 4,
       [](In in) { (void)in.ops.linear_drawn(in.kv, drawn); }},
      {op::LinearDrawnBackwardInput::facts,
       [](In in) { return in.ops.linear_drawn_backward_input(in.ops.linear_drawn(in.x, drawn), drawn); }, 1031, 8,
       [](In in) { (void)in.ops.linear_drawn_backward_input(in.x, drawn); }},
      {op::Axpby::facts, [](In in) { return in.ops.axpby(0.3, in.x, 0.7, in.y); }, 3, 2,
       [](In in) { (void)in.ops.axpby(1.0, in.x, 1.0, in.kv); }},
      {op::Scale::facts, [](In in) { return in.ops.scale(0.3, in.x); }, 2, 1,
       [](In in) { (void)in.ops.scale(0.3, {}); }},
      {op::Multiply::facts, [](In in) { return in.ops.multiply(in.x, in.y); }, 1, 1,
       [](In in) { (void)in.ops.multiply(in.x, in.kv); }},
      {op::AddRow::facts, [](In in) { return in.ops.add_row(in.x, in.row); }, 1, 2,
       [](In in) { (void)in.ops.add_row(in.x, in.gain); }},
      {op::ColumnSums::facts, [](In in) { return in.ops.column_sums(in.x); }, 67, 4,
       [](In in) { (void)in.ops.column_sums({}); }},
      {op::Gather::facts, [](In in) { return in.ops.gather(in.x, gathered); }, 1, 1,
       [](In in) { (void)in.ops.gather(in.x, out_of_range); }},
      {op::ReplaceRows::facts, [](In in) { return in.ops.replace_rows(in.x, 66, in.row); }, 1, 1,
       [](In in) { (void)in.ops.replace_rows(in.x, 67, in.row); }},
      {op::ScatterAdd::facts, [](In in) { return in.ops.scatter_add(in.x, ids(), 11); }, 13, 4,
       [](In in) { (void)in.ops.scatter_add(in.x, two_ids, 5); }},
      // The largest entry of `lower` is the length of a row, 23; entries of the basis are below 1. Errors of the basis
      // grow with the inverse of the smallest singular value, which is half the largest for normal rows.
      {op::RowBasis::facts,
       [](In in) -> OpResult {
         const RowBasis b = in.ops.row_basis(in.x);
         return {{b.lower, b.basis}};
       },
       67, 4, [](In in) { (void)in.ops.row_basis({}); }},
      {op::Activate::facts, [](In in) { return in.ops.activate(Activation::silu, in.x); }, 12, 1,
       [](In in) { (void)in.ops.activate(Activation::silu, {}); }},
      {op::ActivateBackward::facts, [](In in) { return in.ops.activate_backward(Activation::silu, in.x, in.y); }, 16, 1,
       [](In in) { (void)in.ops.activate_backward(Activation::silu, in.x, in.kv); }},
      {op::Gated::facts, [](In in) { return in.ops.gated(Activation::silu, in.x, in.y); }, 13, 1,
       [](In in) { (void)in.ops.gated(Activation::silu, in.x, in.kv); }},
      {op::GatedBackward::facts,
       [](In in) -> OpResult {
         const GatedGradient g = in.ops.gated_backward(Activation::silu, in.x, in.y, in.x);
         return {{g.dgate, g.dup}};
       },
       18, 1, [](In in) { (void)in.ops.gated_backward(Activation::silu, in.x, in.y, in.kv); }},
      {op::SoftCap::facts, [](In in) { return in.ops.soft_cap(1.5, in.x); }, 12, 1,
       [](In in) { (void)in.ops.soft_cap(0.0, in.x); }},
      {op::SoftCapBackward::facts, [](In in) { return in.ops.soft_cap_backward(1.5, in.x, in.y); }, 24, 1,
       [](In in) { (void)in.ops.soft_cap_backward(1.5, in.x, in.kv); }},
      // One norm has a divisor, the other alpha.
      {op::Norm::facts,
       [](In in) -> OpResult {
         const Tensor alpha = in.ops.constant(1, 1, in.dtype, 0.5);
         return {{in.ops.norm(NormKind::layer, in.x, in.gain, in.gain, 1e-6, 4),
                  in.ops.norm(NormKind::dyt, in.x, in.gain, in.gain, 1e-6, 4, alpha)}};
       },
       129, 4, [](In in) { (void)in.ops.norm(NormKind::layer, in.x, in.gain, {}, 1e-6, 1); }},
      {op::NormBackward::facts,
       [](In in) -> OpResult {
         const NormGradient g = in.ops.norm_backward(NormKind::layer, in.x, in.gain, in.y, 1e-6, 4);
         const Tensor alpha = in.ops.constant(1, 1, in.dtype, 0.5);
         const NormGradient bent = in.ops.norm_backward(NormKind::derf, in.x, in.gain, in.y, 1e-6, 4, alpha);
         return {{g.dx, g.dgain, g.dbias, bent.dx, bent.dgain, bent.dbias, bent.dalpha}};
       },
       129 + 268, 16, [](In in) { (void)in.ops.norm_backward(NormKind::layer, in.x, in.gain, in.kv, 1e-6, 4); }},
      {op::Rope::facts, [](In in) { return in.ops.rope(in.x, 2, 1, frequencies()); }, 4 * 67, 2,
       [](In in) { (void)in.ops.rope(in.x, 2, 1, std::vector<double>(3, 1.0)); }},
      {op::RopeBackward::facts, [](In in) { return in.ops.rope_backward(in.x, 2, 1, frequencies()); }, 4 * 67, 2,
       [](In in) { (void)in.ops.rope_backward(in.x, 5, 1, frequencies()); }},
      {op::Attention::facts,
       [](In in) -> OpResult {
         const AttentionOutput a = in.ops.attention(in.x, in.kv, in.kv, shape);
         return {{a.mixed, a.scores}};
       },
       attention_terms, 1, [](In in) { (void)in.ops.attention(in.x, in.x, in.kv, shape); }},
      {op::AttentionBackward::facts,
       [](In in) -> OpResult {
         const AttentionGradient g = in.ops.attention_backward(in.x, in.kv, in.kv, in.y, shape);
         return {{g.dq, g.dk, g.dv}};
       },
       3 * attention_terms, 8, [](In in) { (void)in.ops.attention_backward(in.x, in.kv, in.kv, in.kv, shape); }},
      {op::CrossEntropy::facts,
       [](In in) -> OpResult {
         const CrossEntropy c = in.ops.cross_entropy(in.x, labels());
         return {{c.dlogits}, {c.loss}};
       },
       516, 4, [](In in) { (void)in.ops.cross_entropy(in.x, two_ids); }},
      {op::TokenLosses::facts,
       [](In in) -> OpResult {
         return {{}, in.ops.token_losses(in.x, labels())};
       },
       516, 4, [](In in) { (void)in.ops.token_losses(in.x, std::vector<int>(67, 516)); }},
      {op::Adamw::facts,
       [](In in) -> OpResult {
         // Second moments are positive and far from 0, where the square root is steep.
         const AdamState s = in.ops.adamw(
             {.parameter = in.x,
              .mean = in.y,
              .square = in.ops.axpby(1.0, in.ops.multiply(in.x, in.x), 1.0, in.ops.constant(67, 516, in.dtype, 1.0))},
             in.y,
             {.rate = 0.1, .decay = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .gradient_scale = 0.5, .step = 3});
         return {{s.parameter, s.mean, s.square}};
       },
       20, 2,
       [](In in) {
         (void)in.ops.adamw(
             {.parameter = in.x, .mean = in.x, .square = in.x}, in.kv,
             {.rate = 0.1, .decay = 0.0, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .gradient_scale = 1.0, .step = 1});
       }},
      // Roundings of the kurtosis, a quotient of sums of fourth powers. The largest result is the sum of squares.
      {op::Measure::facts, statistics, 4 * 516, 1, [](In in) { (void)in.ops.measure(in.x, {.dots_with = in.kv}); }},
  };
}

}  // namespace

OpInputs inputs_on(const Target& target) {
  return inputs(*target.backend, target, [](const Twin& t) { return t.here; });
}

OpInputs inputs_on_truth(const Target& target) {
  return inputs(truth(), target, [](const Twin& t) { return t.truth; });
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = make_cases();
  return cases;
}

std::vector<double> values_of(const OpResult& result, const Backend& ops) {
  std::vector<double> all = result.numbers;
  for (const Tensor& x : result.tensors) {
    const std::vector<double> more = ops.to_host(x);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

double allowed_error(const OpCase& op_case, DType dtype) {
  constexpr double few = 24.0;  // roundings of the op's formula and of the result
  const OpFacts& row = op_case.op;
  const bool in_dtype = row.accumulation == Accumulation::in_dtype || op_case.terms < few;
  const DType computed = compute_dtype(dtype);
  const double error = in_dtype ? rounding_bound_of_both(op_case.terms + few, computed)
                                : rounding_bound(few, row.output == OutputType::f64 ? DType::f64 : computed) +
                                      2.0 * rounding_bound(op_case.terms + few, DType::f64);
  // Bounds the roundings of values stored in a narrow dtype: attention weights, slopes of scores, and the result.
  constexpr double stored = 4.0;
  const bool narrow = computed != dtype && row.output != OutputType::f64;
  return op_case.condition * (error + (narrow ? rounding_bound(stored, dtype) : 0.0));
}

}  // namespace periscope::testing
