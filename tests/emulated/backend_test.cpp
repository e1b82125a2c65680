#include "tests/emulated/backend.h"

#include <algorithm>
#include <cmath>

#include "sim/core/storage.h"
#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// Ops in a number format, against the same steps written out in float, and against the reference in fp64.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;

const NumberFormat& format_called(std::string_view name) {
  return *std::ranges::find(number_formats, name, &NumberFormat::name);
}

RunArithmetic arithmetic(Arithmetic kind, std::string_view format) {
  return run_arithmetic(kind, format == "fp64" ? fp64 : format_called(format));
}

Tensor row(const std::vector<double>& values) {
  return truth().from_host(1, static_cast<Index>(values.size()), DType::f64, values);
}

Tensor numbers(Index rows, Index cols, std::uint32_t which, const NumberFormat& format) {
  return round_to_stored(truth(), truth().normal(rows, cols, DType::f64, {3, 0, Stream{which}}, 1.0), format);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = truth().to_host(a);
  const std::vector<double> y = truth().to_host(b);
  double largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

TEST_CASE("fp64, one term after the other: every op is the reference's to rounding") {
  for (const SumOrder order :
       {SumOrder::sequential, SumOrder::pairwise, SumOrder::shuffled, SumOrder::positives_first}) {
    const auto ops =
        make_emulated_backend(truth(), {.arithmetic = arithmetic(Arithmetic::pure, "fp64"), .order = order});
    const Tensor x = numbers(6, 12, 1, fp64);
    const Tensor y = numbers(6, 12, 2, fp64);
    const Tensor w = numbers(5, 12, 3, fp64);
    const Tensor gain = numbers(1, 4, 4, fp64);
    const Tensor bias = numbers(1, 4, 5, fp64);
    CHECK(largest_difference(ops->linear(x, w), truth().linear(x, w)) < 1e-14);
    const DrawnMatrix drawn{.rows = 5, .cols = 12, .key = {1, 2, Stream{3}}, .stddev = 1.0};
    CHECK(largest_difference(ops->linear_drawn(x, drawn), truth().linear_drawn(x, drawn)) < 1e-14);
    const Tensor dy = numbers(6, 5, 9, fp64);
    CHECK(largest_difference(ops->linear_drawn_backward_input(dy, drawn),
                             truth().linear_drawn_backward_input(dy, drawn)) < 1e-14);
    CHECK(largest_difference(ops->linear_weight_square(dy, x), truth().linear_weight_square(dy, x)) == 0.0);
    CHECK(largest_difference(ops->axpby(0.3, x, -2.0, y), truth().axpby(0.3, x, -2.0, y)) < 1e-15);
    CHECK(largest_difference(ops->scale(0.3, x), truth().scale(0.3, x)) == 0.0);
    CHECK(largest_difference(ops->add_row(x, numbers(1, 12, 6, fp64)), truth().add_row(x, numbers(1, 12, 6, fp64))) ==
          0.0);
    for (std::size_t number = 0; number < norm_table.size(); ++number) {
      const auto kind = static_cast<NormKind>(number);
      const Tensor alpha = facts_of(kind).has_alpha() ? numbers(1, 1, 8, fp64) : Tensor{};
      CHECK(largest_difference(ops->norm(kind, x, gain, bias, 1e-5, 3, alpha),
                               truth().norm(kind, x, gain, bias, 1e-5, 3, alpha)) < 1e-14);
      CHECK(largest_difference(ops->norm_backward(kind, x, gain, y, 1e-5, 3, alpha).dx,
                               truth().norm_backward(kind, x, gain, y, 1e-5, 3, alpha).dx) == 0.0);
    }
    const std::vector<double> frequencies{1.0, 0.1};
    CHECK(largest_difference(ops->rope(x, 3, 2, frequencies), truth().rope(x, 3, 2, frequencies)) < 1e-14);
    for (const double cap : {0.0, 1.5}) {
      const AttentionShape shape{.heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 3,
                                 .sequences = 2,
                                 .causal = true,
                                 .scores = {.scale = 0.0, .soft_cap = cap, .window = 2}};
      const Tensor k = numbers(6, 6, 7, fp64);
      const Tensor v = numbers(6, 6, 8, fp64);
      CHECK(largest_difference(ops->attention(x, k, v, shape).mixed, truth().attention(x, k, v, shape).mixed) < 1e-14);
      CHECK(largest_difference(ops->attention(x, k, v, shape).scores, truth().attention(x, k, v, shape).scores) <
            1e-14);
    }
    // the last tokens of two sequences of six
    CHECK(largest_difference(ops->rope(x, 3, 2, frequencies, 3), truth().rope(x, 3, 2, frequencies, 3)) < 1e-14);
    const AttentionShape later{
        .heads = 4, .kv_heads = 2, .head_dim = 3, .sequences = 2, .causal = true, .scores = {.window = 4}, .offset = 3};
    const Tensor all_k = numbers(12, 6, 7, fp64);
    const Tensor all_v = numbers(12, 6, 8, fp64);
    const Tensor row = numbers(1, 6, 9, fp64);
    CHECK(largest_difference(ops->attention(x, all_k, all_v, later).mixed,
                             truth().attention(x, all_k, all_v, later).mixed) < 1e-14);
    CHECK(largest_difference(ops->replace_rows(all_k, 5, row), truth().replace_rows(all_k, 5, row)) == 0.0);
    for (const Activation kind :
         {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh, Activation::sigmoid}) {
      CHECK(largest_difference(ops->activate(kind, x), truth().activate(kind, x)) < 1e-15);
      CHECK(largest_difference(ops->gated(kind, x, y), truth().gated(kind, x, y)) < 1e-14);
    }
    CHECK(largest_difference(ops->soft_cap(0.7, x), truth().soft_cap(0.7, x)) < 1e-15);
  }
}

TEST_CASE("mixed fp16: a linear map sums in fp32 and stores once; pure rounds every product and partial sum") {
  const NumberFormat& fp16 = format_called("fp16");
  const Rounding half(fp16);
  const Tensor x = numbers(3, 40, 1, fp16);
  const Tensor w = numbers(4, 40, 2, fp16);
  const double* a = elements<double>(x);
  const double* b = elements<double>(w);
  for (const bool reversed : {false, true}) {
    std::vector<double> mixed, pure;
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 4; ++j) {
        float sum = 0.0F;
        double narrow = 0.0;
        for (Index k = 0; k < 40; ++k) {
          const Index at = reversed ? 39 - k : k;
          const auto product = static_cast<float>(a[i * 40 + at]) * static_cast<float>(b[j * 40 + at]);
          sum = sum + product;
          narrow = half(narrow + half(product));
        }
        mixed.push_back(half(sum));
        pure.push_back(narrow);
      }
    }
    const SumOrder order = reversed ? SumOrder::reversed : SumOrder::sequential;
    for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
      const auto ops = make_emulated_backend(truth(), {.arithmetic = arithmetic(kind, "fp16"), .order = order});
      CHECK(truth().to_host(ops->linear(x, w)) == (kind == Arithmetic::mixed ? mixed : pure));
    }
    CHECK(mixed != pure);
  }
}

TEST_CASE("sums stagnate in the format, and their order matters: 4096 ones and a large number") {
  std::vector<double> ones(4096, 1.0);
  const auto sum = [&](Arithmetic kind, SumOrder order, const std::vector<double>& terms) {
    const auto ops = make_emulated_backend(truth(), {.arithmetic = arithmetic(kind, "fp16"), .order = order});
    return truth().to_host(ops->linear(row(terms), row(std::vector<double>(terms.size(), 1.0)))).front();
  };
  CHECK(sum(Arithmetic::mixed, SumOrder::sequential, ones) == 4096.0);
  CHECK(sum(Arithmetic::pure, SumOrder::sequential, ones) == 2048.0);
  CHECK(sum(Arithmetic::pure, SumOrder::pairwise, ones) == 4096.0);
  CHECK(sum(Arithmetic::pure, SumOrder::lanes, ones) == 4096.0);
  const std::vector<double> cancelling{40000.0, -40000.0, 40000.0, -40000.0};
  CHECK(sum(Arithmetic::pure, SumOrder::sequential, cancelling) == 0.0);
  CHECK(sum(Arithmetic::pure, SumOrder::positives_first, cancelling) == HUGE_VAL);
  CHECK(sum(Arithmetic::pure, SumOrder::negatives_first, cancelling) == -HUGE_VAL);
  CHECK(sum(Arithmetic::mixed, SumOrder::positives_first, cancelling) == 0.0);
}

TEST_CASE("a fused product is not rounded before it is added") {
  // 1 + 2^-5 squared has a bit at 2^-10; that of 1 + 2^-10 squared, at 2^-20, shows only beside −1 − 2^-9.
  const std::vector<double> a{-1.0, 1.0 + 0x1p-10};
  const std::vector<double> b{1.0 + 0x1p-9, 1.0 + 0x1p-10};
  for (const bool fused : {false, true}) {
    const auto ops =
        make_emulated_backend(truth(), {.arithmetic = arithmetic(Arithmetic::pure, "fp16"), .fused = fused});
    CHECK(truth().to_host(ops->linear(row(a), row(b))).front() == (fused ? 0x1p-20 : 0.0));
  }
}

TEST_CASE("norms: squares overflow and underflow in the format of sums; nothing divided by nothing is not a number") {
  const auto norm = [&](Arithmetic kind, std::string_view format, const std::vector<double>& x, double eps) {
    const auto ops = make_emulated_backend(truth(), {.arithmetic = arithmetic(kind, format)});
    return truth().to_host(ops->norm(NormKind::rms, row(x), row({1.0, 1.0}), {}, eps, 1));
  };
  CHECK(norm(Arithmetic::mixed, "fp16", {300.0, 300.0}, 0.0)[0] == 1.0);
  CHECK(norm(Arithmetic::pure, "fp16", {300.0, 300.0}, 0.0)[0] == 0.0);  // 9e4 is infinite
  CHECK(std::isinf(norm(Arithmetic::pure, "fp16", {1e-4, 1e-4}, 0.0)[0]));
  CHECK(std::isinf(norm(Arithmetic::mixed, "bf16", {0x1p-80, 0x1p-80}, 1e-300)[0]));
  CHECK(norm(Arithmetic::mixed, "bf16", {0x1p-80, 0x1p-80}, 1e-12)[0] < 1e-6);
  CHECK(std::isnan(norm(Arithmetic::mixed, "fp16", {0.0, 0.0}, 1e-300)[0]));
}

TEST_CASE("where a norm stores: before its gain, or once") {
  const NumberFormat& bf16 = format_called("bf16");
  const Rounding narrow(bf16);
  const Tensor x = numbers(1, 8, 1, bf16);
  const Tensor gain = numbers(1, 8, 2, bf16);
  float square = 0.0F;
  for (Index i = 0; i < 8; ++i) square += static_cast<float>(elements<double>(x)[i] * elements<double>(x)[i]);
  const float rms = std::sqrt(square / 8.0F + 1e-5F);
  int different = 0;
  for (const NormForm form : {NormForm::stored_then_gain, NormForm::accumulated}) {
    const auto ops =
        make_emulated_backend(truth(), {.arithmetic = arithmetic(Arithmetic::mixed, "bf16"), .norm = form});
    const Tensor y = ops->norm(NormKind::rms, x, gain, {}, 1e-5, 1);
    for (Index i = 0; i < 8; ++i) {
      const float normalised = static_cast<float>(elements<double>(x)[i]) / rms;
      const double twice = narrow(narrow(normalised) * elements<double>(gain)[i]);
      const double once = narrow(normalised * static_cast<float>(elements<double>(gain)[i]));
      CHECK(elements<double>(y)[i] == (form == NormForm::accumulated ? once : twice));
      different += static_cast<int>(once != twice);
    }
  }
  CHECK(different > 0);
}

struct Noted final : Watch {
  std::vector<std::pair<Inner, std::vector<double>>> all;
  const Tensor* parameter = nullptr;
  void on_inner(const Tensor* p, Inner inner, std::span<const double> magnitudes) override {
    if (p != nullptr) parameter = p;
    all.emplace_back(inner, std::vector<double>(magnitudes.begin(), magnitudes.end()));
  }
  [[nodiscard]] std::vector<double> of(Inner inner) const {
    for (const auto& [kind, values] : all) {
      if (kind == inner) return values;
    }
    return {};
  }
};

TEST_CASE("inner numbers are watched: partial sums, squares, raw scores") {
  Noted seen;
  const auto ops = make_emulated_backend(truth(), {.arithmetic = arithmetic(Arithmetic::pure, "fp16")}, &seen);
  const Tensor w = truth().from_host(2, 3, DType::f64, std::vector<double>{1.0, 2.0, -3.0, 0.5, 0.0, 0.0});
  CHECK(truth().to_host(ops->linear(row({10.0, 10.0, 10.0}), w)) == std::vector<double>{0.0, 5.0});
  CHECK(seen.of(Inner::partial_sum) == std::vector<double>{30.0, 5.0});
  CHECK(seen.parameter == &w);
  (void)ops->norm(NormKind::layer, row({10.0, 30.0}), row({2.0, 3.0}), row({0.0, 1.0}), 0.0, 1);
  CHECK(seen.of(Inner::mean_sum) == std::vector<double>{40.0});
  CHECK(seen.of(Inner::centred) == std::vector<double>{10.0, 10.0});
  CHECK(seen.of(Inner::square) == std::vector<double>{100.0});
  CHECK(seen.of(Inner::square_sum) == std::vector<double>{200.0});
  CHECK(seen.of(Inner::gained) == std::vector<double>{2.0, 3.0});
  const Tensor q = row({300.0, 300.0});
  const AttentionShape shape{
      .heads = 1, .kv_heads = 1, .head_dim = 2, .sequences = 1, .causal = true, .scores = {.scale = 1e-4}};
  const AttentionOutput attended = ops->attention(q, q, q, shape);
  CHECK(seen.of(Inner::dot).front() == HUGE_VAL);
  CHECK(seen.of(Inner::score) == truth().to_host(attended.scores));
  CHECK(std::isnan(truth().to_host(attended.mixed)[0]));  // ∞ − ∞ inside the softmax
}

TEST_CASE("softmax: weights are stored, and a long denominator stagnates in the format") {
  const Index tokens = 3000;
  const auto largest_weight_sum = [&](Arithmetic kind) {
    const auto ops = make_emulated_backend(truth(), {.arithmetic = arithmetic(kind, "fp16")});
    const Tensor zeros = truth().constant(tokens, 1, DType::f64, 0.0);
    const Tensor ones = truth().constant(tokens, 1, DType::f64, 1.0);
    const AttentionShape shape{.heads = 1, .kv_heads = 1, .head_dim = 1, .sequences = 1, .causal = true, .scores = {}};
    const std::vector<double> mixed = truth().to_host(ops->attention(zeros, zeros, ones, shape).mixed);
    return *std::ranges::max_element(mixed);
  };
  CHECK(largest_weight_sum(Arithmetic::mixed) < 1.001);
  CHECK(largest_weight_sum(Arithmetic::pure) > 1.05);
}

}  // namespace
}  // namespace periscope::testing
