#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/cuda/launch.h"
#include "sim/cuda/on_host/backend.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"

/// Reads and accesses of the CUDA backend's kernels, counted in the host execution; independence of the order of
/// threads.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr DType every_dtype[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr int largest = 100;
/// The request of `propagate` at every site.
const StatisticsRequest of_site{.moments = true, .squares = true, .cosine_of_sequences = 1, .top_magnitudes = largest};

/// Totals of one `measure`.
struct Use {
  Index launches = 0;
  Index read = 0;
  Index written = 0;
  Index most_accesses = 0;  ///< by one thread in one launch
};

Use use_of_measure(DType dtype, Index rows, Index cols, const std::vector<double>& values,
                   const StatisticsRequest& request) {
  cuda::Profile profile;
  const auto ops = make_cuda_backend_on_host({.profile = &profile});
  const Tensor x = ops->from_host(rows, cols, dtype, values);
  (void)ops->measure(x, request);
  Use use;
  for (const auto& [name, kernel] : profile.kernels) {
    if (name.first != "measure") continue;
    use.launches += kernel.launches;
    use.read += kernel.read;
    use.written += kernel.written;
    use.most_accesses = std::max(use.most_accesses, kernel.most_accesses);
  }
  return use;
}

std::vector<double> normal_numbers(Index count) {
  return truth().to_host(truth().normal(1, count, DType::f64, {1, 2, Stream{5}}, 1.0));
}

TEST_CASE("measure: at most three passes over a signal, 7 launches and one per digit, no thread with many accesses") {
  constexpr Index rows = 1024, cols = 2560;
  const std::vector<double> normal = normal_numbers(rows * cols);
  std::vector<double> coarse = normal;  // with a thousand equal elements among the candidates
  for (double& x : coarse) x = std::round(x);
  // If all elements are equal, all are candidates: index and value are read once per digit and once by Choose.
  const std::pair<std::vector<double>, Index> inputs[] = {
      {normal, 3}, {coarse, 3}, {std::vector<double>(normal.size(), 0.5), 18}};
  for (const DType dtype : every_dtype) {
    CAPTURE(name_of(dtype));
    const Index pass = rows * cols * static_cast<Index>(size_of(dtype));
    const Index digits = dtype == DType::f64 ? 6 : dtype == DType::f32 ? 3 : 2;  // of 11 bits, of a magnitude
    for (const auto& [values, passes] : inputs) {
      const Use site = use_of_measure(dtype, rows, cols, values, of_site);
      CHECK(site.read >= 2 * pass);
      CHECK(site.read <= passes * pass);
      CHECK(site.written <= passes * pass / 3);
      CHECK(site.launches == 7 + digits);
      CHECK(site.most_accesses <= 192);
    }
    CHECK(10 * use_of_measure(dtype, rows, cols, normal, {.top_magnitudes = largest}).read <= 24 * pass);
    const Use rows_only = use_of_measure(dtype, rows, cols, normal, {.moments = true, .squares = true});
    CHECK(rows_only.read == pass);
    CHECK(rows_only.launches == 1);
  }
  // The row of 40 KiB in f32 is read twice where shared memory cannot keep it.
  const Use long_row = use_of_measure(DType::f32, 2, 10240, normal_numbers(20480), {.moments = true});
  CHECK(long_row.read == 4 * (20480 + 20480 - 2 * 5120));
}

TEST_CASE("a profile counts the bytes of products, copies and fills") {
  cuda::Profile profile;
  const auto ops = make_cuda_backend_on_host({.profile = &profile});
  const Tensor y = ops->linear(ops->constant(3, 5, DType::bf16, 1.0), ops->constant(7, 5, DType::bf16, 1.0));
  (void)ops->to_host(y);
  (void)ops->measure(y, {.top_magnitudes = 1});
  const auto use = [&](const char* op, const char* kernel) { return profile.kernels.at({op, kernel}); };
  CHECK(use("linear", "product").read == (3 + 7) * 5 * 2);
  CHECK(use("linear", "product").written == 3 * 7 * 2);
  CHECK(use("to_host", "download").read == 3 * 7 * 2);
  CHECK(use("measure", "fill with zeros").written >= 2048 * 4);
}

struct LastThread {
  struct Shared {};
  cuda::Out<Index> last_thread, last_block;
  void operator()(const cuda::Block& block, Shared& /*shared*/, Index b) const {
    block.threads([&](int t) { last_thread[b] = t; });
    last_block[0] = b;
  }
};

TEST_CASE("Options::reversed reverses threads and blocks") {
  for (const bool reversed : {false, true}) {
    const cuda::Execution execution({.reversed = reversed});
    Index thread[2], block = 2;
    cuda::for_blocks(execution, 2, LastThread{thread, &block});
    CHECK(thread[0] == (reversed ? 0 : cuda::Block::size - 1));
    CHECK(block == (reversed ? 0 : 1));
  }
}

TEST_CASE("the order of threads and blocks changes no bit of any op") {
  const std::vector<double> normal = normal_numbers(300 * 517);
  StatisticsRequest all = of_site;
  all.top_entries = largest;
  all.median_magnitude = all.column_maxima = true;
  for (const DType dtype : every_dtype) {
    const Target forward{make_cuda_backend_on_host({.scores_at_once = 500}), dtype};
    const Target reversed{make_cuda_backend_on_host({.scores_at_once = 500, .reversed = true}), dtype};
    for (const OpCase& op_case : op_cases()) {
      check_same_bits(std::string(op_case.op.name), values_of(op_case.run(inputs_on(reversed)), *reversed.backend),
                      values_of(op_case.run(inputs_on(forward)), *forward.backend));
    }
    const auto measured = [&](const Target& t) {
      return t.backend->to_host(t.backend->measure(t.backend->from_host(300, 517, dtype, normal), all));
    };
    check_same_bits("measure", measured(reversed), measured(forward));
  }
}

TEST_CASE("normal and measure: a GPU gives the bits of the host execution") {
  const Target on_host{make_cuda_backend_on_host(), DType::f64};
  for (const Target& target : targets_of_every_dtype()) {
    if (target.backend->device() != Device::cuda) continue;
    const Tensor here = target.backend->normal(257, 2563, target.dtype, {1, 2, Stream{5}}, 0.37);
    const Tensor there = on_host.backend->normal(257, 2563, target.dtype, {1, 2, Stream{5}}, 0.37);
    check_same_bits(target.name() + " normal", target.backend->to_host(here), on_host.backend->to_host(there));
    StatisticsRequest request{.moments = true, .squares = true, .cosine_of_sequences = 1, .top_magnitudes = largest};
    request.top_entries = largest;
    request.median_magnitude = request.column_maxima = true;
    MESSAGE("compared on ", target.name());  // on_gpu.sh requires this line
    check_same_bits(target.name() + " measure", target.backend->to_host(target.backend->measure(here, request)),
                    on_host.backend->to_host(on_host.backend->measure(there, request)));
  }
}

}  // namespace
}  // namespace periscope::testing
