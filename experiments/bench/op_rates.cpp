#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/bench/measure.h"
#include "sim/backends.h"

/// Measures the rates of the expensive CPU ops at the 3.2B shape with Google Benchmark: GFLOP/s of matrix products,
/// GB/s of memory-bound ops. Also reports the share of the ceiling measured at the start of the run: the best rate of a
/// large product in the same dtype, or of reading or copying long arrays. Inputs and outputs count once each; the share
/// can exceed 1 if they are in the cache. Accepts the flags of Google Benchmark.
namespace periscope {
namespace {

using Index = Tensor::Index;

constexpr Index width = 2560, hidden = 10240, vocabulary = 32768;
constexpr int heads = 16, kv_heads = 8, head_dim = 160;
constexpr Index query = Index{heads} * head_dim, key = Index{kv_heads} * head_dim;
constexpr double eps = 1e-6;

/// Device, number of tokens and dtype of a measurement.
struct Setting {
  const Backend& ops;
  Index tokens;
  DType dtype;

  [[nodiscard]] double count(Index cols) const { return static_cast<double>(tokens) * static_cast<double>(cols); }
  [[nodiscard]] Tensor matrix(Index rows, Index cols, std::uint32_t stream) const {
    return ops.normal(rows, cols, dtype, {1, 0, Stream{stream}}, 1.0);
  }
  [[nodiscard]] Tensor signal(Index cols, std::uint32_t stream = 1) const { return matrix(tokens, cols, stream); }
  [[nodiscard]] Tensor gain() const { return ops.constant(1, width, dtype, 1.0); }
};

/// One call of an op and its work: floating-point operations, or elements read and written.
struct Work {
  double amount;
  std::function<void()> call;
};

enum class WorkUnit { operations, elements };

struct Case {
  std::string_view name;
  WorkUnit unit;
  Work (*make)(const Setting& s);
};

constexpr DrawnMatrix drawn{.rows = hidden, .cols = width, .key = {1, 2, Stream{3}}, .stddev = 0.02};
constexpr AttentionShape shape{
    .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .sequences = 1, .causal = true, .scores = {}};

/// Returns the floating-point operations of the product of a signal with an MLP matrix.
double product(const Setting& s) { return 2.0 * s.count(width) * static_cast<double>(hidden); }
/// Returns the floating-point operations of one causal attention product, half of which is masked.
double attention_product(const Setting& s) { return s.count(s.tokens) * heads * head_dim; }
/// Returns the floating-point operations of the Gram matrix of a signal's rows, using its symmetry.
double gram(const Setting& s, Index cols) { return s.count(s.tokens) * static_cast<double>(cols); }

/// Returns a call of an op with these arguments.
template <class Op, class... Args>
Work work(const Setting& s, double amount, Op op, Args... args) {
  return {amount, [&ops = s.ops, op, ... args = std::move(args)] { (void)(ops.*op)(args...); }};
}

std::vector<int> labels_of(const Setting& s) {
  std::vector<int> labels;
  for (Index t = 0; t < s.tokens; ++t) labels.push_back(static_cast<int>(7 * t % vocabulary));
  return labels;
}

using enum WorkUnit;
using Ops = Backend;
// clang-format off
constexpr Case cases[] = {
    {"linear", operations, [](const Setting& s) {
       return work(s, product(s), &Ops::linear, s.signal(width), s.matrix(hidden, width, 2)); }},
    {"linear_backward_input", operations, [](const Setting& s) {
       return work(s, product(s), &Ops::linear_backward_input, s.signal(hidden), s.matrix(hidden, width, 2)); }},
    {"linear_backward_weight", operations, [](const Setting& s) {
       return work(s, product(s), &Ops::linear_backward_weight, s.signal(hidden), s.signal(width, 2)); }},
    {"linear_weight_square", operations, [](const Setting& s) {
       return work(s, gram(s, width) + gram(s, hidden), &Ops::linear_weight_square, s.signal(hidden),
                   s.signal(width, 2)); }},
    {"linear_drawn", operations, [](const Setting& s) {
       return work(s, product(s), &Ops::linear_drawn, s.signal(width), drawn); }},
    {"linear_drawn_backward_input", operations, [](const Setting& s) {
       return work(s, product(s), &Ops::linear_drawn_backward_input, s.signal(hidden), drawn); }},
    {"row_basis", operations, [](const Setting& s) {
       return work(s, 2.0 * gram(s, width), &Ops::row_basis, s.signal(width), true); }},
    {"attention", operations, [](const Setting& s) {
       return work(s, 2.0 * attention_product(s), &Ops::attention, s.signal(query), s.signal(key, 2),
                   s.signal(key, 3), shape); }},
    {"attention_backward", operations, [](const Setting& s) {
       return work(s, 5.0 * attention_product(s), &Ops::attention_backward, s.signal(query), s.signal(key, 2),
                   s.signal(key, 3), s.signal(query, 4), shape); }},
    {"normal", elements, [](const Setting& s) {
       return work(s, s.count(hidden), &Ops::normal, s.tokens, hidden, s.dtype, StreamKey{1, 2, Stream{3}}, 1.0); }},
    {"norm_rms", elements, [](const Setting& s) {
       return work(s, 2.0 * s.count(width), &Ops::norm, NormKind::rms, s.signal(width), s.gain(), Tensor{}, eps, 1,
                   Tensor{}); }},
    {"norm_rms_backward", elements, [](const Setting& s) {
       return work(s, 3.0 * s.count(width), &Ops::norm_backward, NormKind::rms, s.signal(width), s.gain(),
                   s.signal(width, 2), eps, 1, Tensor{}); }},
    {"activate_silu", elements, [](const Setting& s) {
       return work(s, 2.0 * s.count(hidden), &Ops::activate, Activation::silu, s.signal(hidden)); }},
    {"gated_silu", elements, [](const Setting& s) {
       return work(s, 3.0 * s.count(hidden), &Ops::gated, Activation::silu, s.signal(hidden), s.signal(hidden, 2)); }},
    {"gated_silu_backward", elements, [](const Setting& s) {
       return work(s, 5.0 * s.count(hidden), &Ops::gated_backward, Activation::silu, s.signal(hidden),
                   s.signal(hidden, 2), s.signal(hidden, 3)); }},
    {"axpby", elements, [](const Setting& s) {
       return work(s, 3.0 * s.count(width), &Ops::axpby, 1.0, s.signal(width), 1.0, s.signal(width, 2)); }},
    {"rope", elements, [](const Setting& s) {
       return work(s, 2.0 * s.count(query), &Ops::rope, s.signal(query), heads, 1,
                   rope_frequencies(head_dim, 1e4), 0); }},
    {"measure", elements, [](const Setting& s) {
       return work(s, s.count(width), &Ops::measure, s.signal(width),
                   StatisticsRequest{.moments = true, .cosine_of_sequences = 1, .top_magnitudes = 100}); }},
    {"cross_entropy", elements, [](const Setting& s) {
       return work(s, 2.0 * s.count(vocabulary), &Ops::cross_entropy, s.signal(vocabulary), labels_of(s)); }},
};
// clang-format on

/// Returns the duration of the fastest of 10 calls, in seconds.
double fastest(const std::function<void()>& call) { return std::ranges::min(bench::seconds_of_each(10, call)); }

double best_product_gflops(const Backend& ops, DType dtype) {
  const Setting setting{ops, 1024, dtype};
  const Work work = cases[0].make(setting);
  return 1e-9 * work.amount / fastest(work.call);
}

/// Returns the higher of two rates with all threads: reading and copying 256 MiB. Copying counts every byte twice.
double best_memory_gbytes() {
  constexpr std::size_t count = std::size_t{1} << 25U;
  std::vector<double> from(count, 1.0);
  std::vector<double> to(count, 0.0);
  const double copying = fastest([&] {
#pragma omp parallel for simd schedule(static)
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  });
  const double reading = fastest([&] {
    double sum = 0.0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
    for (std::size_t i = 0; i < count; ++i) sum += from[i];
    benchmark::DoNotOptimize(sum);
  });
  return 1e-9 * static_cast<double>(count * sizeof(double)) * std::max(2.0 / copying, 1.0 / reading);
}

void add(const Backend& ops, const Case& one, Index tokens, DType dtype, double ceiling) {
  const std::string name = fmt::format("{}/{}/{}", one.name, name_of(dtype), tokens);
  const double unit = one.unit == operations ? 1e-9 : 1e-9 * static_cast<double>(size_of(dtype));
  const auto run = [=, &ops, &one](benchmark::State& state) {
    const Work work = one.make({ops, tokens, dtype});
    work.call();
    const double seconds = bench::seconds_of([&] {
      for (auto _ : state) work.call();
    });
    const double rate = unit * work.amount * static_cast<double>(state.iterations()) / seconds;
    state.counters[one.unit == operations ? "GFLOP/s" : "GB/s"] = rate;
    state.counters["share"] = rate / ceiling;
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->MeasureProcessCPUTime();
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::unique_ptr<Backend> ops = make_backend("cpu");
  const double f32 = best_product_gflops(*ops, DType::f32);
  const double f64 = best_product_gflops(*ops, DType::f64);
  const double memory = best_memory_gbytes();
  benchmark::AddCustomContext("ceiling_f32_gflops", fmt::format("{:.1f}", f32));
  benchmark::AddCustomContext("ceiling_f64_gflops", fmt::format("{:.1f}", f64));
  benchmark::AddCustomContext("ceiling_memory_gbytes", fmt::format("{:.1f}", memory));
  benchmark::AddCustomContext("threads", fmt::format("{}", omp_get_max_threads()));
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Case& one : cases) {
      for (const Index tokens : {Index{128}, Index{1024}}) {
        if (dtype == DType::f64 && tokens != 128) continue;
        const double products = dtype == DType::f32 ? f32 : f64;
        add(*ops, one, tokens, dtype, one.unit == operations ? products : memory);
      }
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace periscope

int main(int argc, char** argv) { return periscope::run(argc, argv); }
