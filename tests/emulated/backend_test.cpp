#include "tests/emulated/backend.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/core/storage.h"
#include "sim/numerics/rounding.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"

/// Ops in a number format, compared with the reference in fp64 and with hand-computed values in narrower formats.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

constexpr NumberFormat bf16 = number_formats[1];

std::unique_ptr<Backend> emulated(Emulation emulation, Arithmetic kind, const NumberFormat& format,
                                  Watch* watch = nullptr) {
  emulation.arithmetic = run_arithmetic(kind, format);
  return make_emulated_backend(truth(), emulation, watch);
}

Tensor row(const Values& values) { return truth().from_host(1, static_cast<Index>(values.size()), DType::f64, values); }

Tensor numbers(Index rows, Index cols, std::uint32_t which, const NumberFormat& format) {
  return round_to_stored(truth(), truth().normal(rows, cols, DType::f64, {3, 0, Stream{which}}, 1.0), format);
}

/// Variants missing from op_cases: every norm and activation; attention with an offset, several sequences, a soft cap
/// and a window.
std::map<std::string, Tensor> variants(const Backend& ops) {
  const Tensor x = numbers(6, 12, 1, fp64);
  const Tensor y = numbers(6, 12, 2, fp64);
  const Tensor gain = numbers(1, 4, 4, fp64);
  std::map<std::string, Tensor> found;
  for (std::size_t i = 0; i < norm_table.size(); ++i) {
    const auto kind = static_cast<NormKind>(i);
    const Tensor alpha = facts_of(kind).has_alpha() ? numbers(1, 1, 8, fp64) : Tensor{};
    found["norm " + std::to_string(i)] = ops.norm(kind, x, gain, numbers(1, 4, 5, fp64), 1e-5, 3, alpha);
  }
  for (const auto kind :
       {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh, Activation::sigmoid}) {
    found["activation " + std::to_string(static_cast<int>(kind))] = ops.activate(kind, x);
    found["gate " + std::to_string(static_cast<int>(kind))] = ops.gated(kind, x, y);
  }
  found["rope"] = ops.rope(x, 3, 2, Values{1.0, 0.1}, 3);
  for (const int offset : {0, 3}) {
    const AttentionShape shape{.heads = 4,
                               .kv_heads = 2,
                               .head_dim = 3,
                               .sequences = 2,
                               .causal = true,
                               .scores = {.scale = 0.0, .soft_cap = offset == 0 ? 1.5 : 0.0, .window = 2},
                               .offset = offset};
    const Index keys = offset == 0 ? 6 : 12;
    const AttentionOutput a = ops.attention(x, numbers(keys, 6, 7, fp64), numbers(keys, 6, 8, fp64), shape);
    found["mixed " + std::to_string(offset)] = a.mixed;
    found["scores " + std::to_string(offset)] = a.scores;
  }
  return found;
}

TEST_CASE("in fp64 every op matches the reference up to rounding in every summation order") {
  const std::map<std::string, Tensor> expected = variants(truth());
  for (std::size_t order = 0; order < sum_order_names.size(); ++order) {
    const auto ops = emulated({.order = static_cast<SumOrder>(order)}, Arithmetic::pure, fp64);
    for (const auto& [name, x] : variants(*ops)) {
      check_close_to_scale(name, truth().to_host(x), truth().to_host(expected.at(name)), 1e-14);
    }
  }
  const OpInputs there = inputs_on_truth(truth_target());
  const auto ops = emulated({}, Arithmetic::pure, fp64);
  const OpInputs here{*ops, DType::f64, there.x, there.y, there.w, there.kv, there.row, there.gain};
  for (const OpCase& c : op_cases()) {
    check_close_to_scale(std::string(c.op.name), values_of(c.run(here), *ops), values_of(c.run(there), truth()),
                         allowed_error(c, DType::f64));
  }
}

TEST_CASE("fp16: a linear map in mixed arithmetic sums in fp32 and rounds once; pure arithmetic rounds every sum") {
  const Rounding half(fp16);
  const Tensor x = numbers(1, 200, 1, fp16);
  const Tensor w = numbers(1, 200, 2, fp16);
  for (const bool reversed : {false, true}) {
    float sum = 0.0F;
    double narrow = 0.0;
    for (Index k = 0; k < 200; ++k) {
      const Index at = reversed ? 199 - k : k;
      const float product = static_cast<float>(elements<double>(x)[at]) * static_cast<float>(elements<double>(w)[at]);
      sum += product;
      narrow = half(narrow + half(product));
    }
    CHECK(half(sum) != narrow);
    const Emulation in_order{.order = reversed ? SumOrder::reversed : SumOrder::sequential};
    CHECK(truth().to_host(emulated(in_order, Arithmetic::mixed, fp16)->linear(x, w))[0] == half(sum));
    CHECK(truth().to_host(emulated(in_order, Arithmetic::pure, fp16)->linear(x, w))[0] == narrow);
  }
}

TEST_CASE("whether a sum stagnates in a format depends on its order") {
  struct Row {
    Arithmetic kind;
    Emulation emulation;
    Values terms, factors;
    double expected;
  };
  const Values ones(4096, 1.0);
  const Values cancelling{4e4, -4e4, 4e4, -4e4};
  const Values four(4, 1.0);
  // (1 + 2^-10)² − 1 − 2^-9 = 2^-20 is lost unless the product is added unrounded.
  const Values a{-1.0, 1.0 + 0x1p-10};
  const Values b{1.0 + 0x1p-9, 1.0 + 0x1p-10};
  const std::vector<Row> rows{
      {Arithmetic::mixed, {.order = SumOrder::sequential}, ones, ones, 4096.0},
      {Arithmetic::pure, {.order = SumOrder::sequential}, ones, ones, 2048.0},
      {Arithmetic::pure, {.order = SumOrder::pairwise}, ones, ones, 4096.0},
      {Arithmetic::pure, {.order = SumOrder::lanes}, ones, ones, 4096.0},
      {Arithmetic::pure, {.order = SumOrder::sequential}, cancelling, four, 0.0},
      {Arithmetic::pure, {.order = SumOrder::positives_first}, cancelling, four, HUGE_VAL},
      {Arithmetic::pure, {.order = SumOrder::negatives_first}, cancelling, four, -HUGE_VAL},
      {Arithmetic::mixed, {.order = SumOrder::positives_first}, cancelling, four, 0.0},
      {Arithmetic::pure, {.fused = false}, a, b, 0.0},
      {Arithmetic::pure, {.fused = true}, a, b, 0x1p-20},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    const Row& r = rows[i];
    CHECK(truth().to_host(emulated(r.emulation, r.kind, fp16)->linear(row(r.terms), row(r.factors)))[0] == r.expected);
  }
  // Softmax of 3000 equal scores: the denominator stagnates at 2048.
  const Tensor zeros = truth().constant(3000, 1, DType::f64, 0.0);
  const Tensor units = truth().constant(3000, 1, DType::f64, 1.0);
  const AttentionShape shape{.heads = 1, .kv_heads = 1, .head_dim = 1, .sequences = 1, .causal = true, .scores = {}};
  for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
    const Values mixed = truth().to_host(emulated({}, kind, fp16)->attention(zeros, zeros, units, shape).mixed);
    CHECK((*std::ranges::max_element(mixed) > 1.05) == (kind == Arithmetic::pure));
  }
}

TEST_CASE("norms: squares overflow and underflow in the accumulation format; norm_stores_steps rounds every step") {
  const auto norm = [&](Arithmetic kind, const NumberFormat& format, double x, double eps) {
    const Tensor y = emulated({}, kind, format)->norm(NormKind::rms, row({x, x}), row({1.0, 1.0}), {}, eps, 1);
    return truth().to_host(y)[0];
  };
  CHECK(norm(Arithmetic::mixed, fp16, 300.0, 0.0) == 1.0);
  CHECK(norm(Arithmetic::pure, fp16, 300.0, 0.0) == 0.0);  // 9e4 overflows
  CHECK(std::isinf(norm(Arithmetic::pure, fp16, 1e-4, 0.0)));
  CHECK(std::isinf(norm(Arithmetic::mixed, bf16, 0x1p-80, 1e-300)));
  CHECK(norm(Arithmetic::mixed, bf16, 0x1p-80, 1e-12) < 1e-6);
  CHECK(std::isnan(norm(Arithmetic::mixed, fp16, 0.0, 1e-300)));

  const Rounding narrow(bf16);
  const Tensor x = numbers(1, 8, 1, bf16);
  const Tensor gain = numbers(1, 8, 2, bf16);
  float square = 0.0F;
  for (Index i = 0; i < 8; ++i) square += static_cast<float>(elements<double>(x)[i] * elements<double>(x)[i]);
  const float rms = std::sqrt(square / 8.0F + 1e-5F);
  Values twice, once;
  for (Index i = 0; i < 8; ++i) {
    const float normalised = static_cast<float>(elements<double>(x)[i]) / rms;
    twice.push_back(narrow(narrow(normalised) * elements<double>(gain)[i]));
    once.push_back(narrow(normalised * static_cast<float>(elements<double>(gain)[i])));
  }
  CHECK(twice != once);
  for (const bool steps : {false, true}) {
    const auto ops = emulated({.norm_stores_steps = steps}, Arithmetic::mixed, bf16);
    CHECK(truth().to_host(ops->norm(NormKind::rms, x, gain, {}, 1e-5, 1)) == (steps ? twice : once));
  }
}

struct RecordingWatch final : Watch {
  std::map<Signal, Values> last;
  const Tensor* parameter = nullptr;
  void on_inner(const Tensor* p, Signal signal, std::span<const double> magnitudes) override {
    parameter = p;
    last[signal].assign(magnitudes.begin(), magnitudes.end());
  }
};

TEST_CASE("a Watch receives the largest magnitudes inside ops") {
  RecordingWatch seen;
  const auto ops = emulated({}, Arithmetic::pure, fp16, &seen);
  const Tensor w = truth().from_host(2, 3, DType::f64, Values{1.0, 2.0, -3.0, 0.5, 0.0, 0.0});
  CHECK(truth().to_host(ops->linear(row({10.0, 10.0, 10.0}), w)) == Values{0.0, 5.0});
  CHECK(seen.parameter == &w);
  CHECK(seen.last == std::map<Signal, Values>{{Signal::sums, {30.0}}, {Signal::products, {5.0}}});
  seen.last.clear();
  (void)ops->norm(NormKind::layer, row({10.0, 30.0}), row({2.0, 3.0}), row({0.0, 1.0}), 0.0, 1);
  CHECK(seen.last[Signal::sums] == Values{40.0});
  CHECK(seen.last[Signal::deviations] == Values{10.0});
  CHECK(seen.last[Signal::squares] == Values{200.0});
  CHECK(seen.last[Signal::normalised] == Values{3.0});
  const Tensor q = row({300.0, 300.0});
  const AttentionShape shape{
      .heads = 1, .kv_heads = 1, .head_dim = 2, .sequences = 1, .causal = true, .scores = {.scale = 1e-4}};
  const AttentionOutput attended = ops->attention(q, q, q, shape);
  CHECK(seen.last[Signal::dots] == Values{HUGE_VAL});
  CHECK(std::isnan(truth().to_host(attended.mixed)[0]));  // ∞ − ∞ inside the softmax
  seen.last.clear();
  (void)ops->axpby(2.0, row({3.0}), 1.0, row({100.0}));
  (void)ops->gated(Activation::relu, row({3.0, 4.0}), row({5.0, 5.0}));
  (void)ops->soft_cap(0.5, row({3.0}));
  CHECK(seen.last ==
        std::map<Signal, Values>{{Signal::addends, {6.0}}, {Signal::gated, {3.0, 4.0}}, {Signal::cap_inputs, {6.0}}});
}

}  // namespace
}  // namespace periscope::testing
