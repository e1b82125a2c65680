#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "sim/cuda/on_host/backend.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"
#include "tests/support/twin.h"

/// What the kernels of the CUDA backend read and write, counted on the host, and that no result depends on the order of
/// threads.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr DType every_dtype[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
/// What `propagate` measures at every site.
constexpr int largest = 100;
const StatisticsRequest of_site{.moments = true, .squares = true, .cosine_of_sequences = 1, .top_magnitudes = largest};

/// Sums over the kernels of one `measure`.
struct Use {
  Index launches = 0;
  Index read = 0;
  Index most_accesses = 0;  ///< by one thread of a kernel
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
    use.most_accesses = std::max(use.most_accesses, kernel.most_accesses);
  }
  return use;
}

std::vector<double> normal_numbers(Index rows, Index cols) {
  return truth().to_host(truth().normal(rows, cols, DType::f64, {1, 2, Stream{5}}, 1.0));
}

TEST_CASE("measure: three passes over a signal, ten launches, and no thread that reads a large part of it") {
  constexpr Index rows = 1024, cols = 2560;
  const std::vector<double> normal = normal_numbers(rows, cols);
  std::vector<double> coarse = normal;  // with a thousand equal elements among the candidates
  for (double& x : coarse) x = std::round(x);
  for (const DType dtype : every_dtype) {
    CAPTURE(name_of(dtype));
    const Index pass = rows * cols * static_cast<Index>(size_of(dtype));
    const Index digits = dtype == DType::f64 ? 6 : dtype == DType::f32 ? 3 : 2;  // of 11 bits, of a magnitude
    for (const auto& values : {normal, coarse, std::vector<double>(normal.size(), 0.5)}) {
      const Use site = use_of_measure(dtype, rows, cols, values, of_site);
      CHECK(site.read >= 2 * pass);
      // If all elements are equal, all are candidates, and are read once per digit.
      CHECK(site.read <= (values[0] == values[1] ? 16 : 3) * pass);
      CHECK(site.launches == 7 + digits);
      CHECK(site.most_accesses <= 128);
    }
    const Use rows_only = use_of_measure(dtype, rows, cols, normal, {.moments = true, .squares = true});
    CHECK(rows_only.read == pass);
    CHECK(rows_only.launches == 1);
  }
}

TEST_CASE("the order of threads and blocks changes no bit of any op") {
  for (const DType dtype : every_dtype) {
    const Target forward{make_cuda_backend_on_host({.scores_at_once = 500}), dtype};
    const Target reversed{make_cuda_backend_on_host({.scores_at_once = 500, .reversed = true}), dtype};
    for (const OpCase& op_case : op_cases()) {
      check_same_bits(std::string(op_case.op.name), values_of(op_case.run(inputs_on(reversed)), *reversed.backend),
                      values_of(op_case.run(inputs_on(forward)), *forward.backend));
    }
  }
}

TEST_CASE("a GPU measures the same bits as the host") {
  const Target on_host{make_cuda_backend_on_host(), DType::f64};
  for (const Target& target : targets_of_every_dtype()) {
    if (target.backend->device() != Device::cuda) continue;
    const Tensor here = target.backend->normal(257, 2563, target.dtype, {1, 2, Stream{5}}, 0.37);
    const Tensor there = on_host.backend->normal(257, 2563, target.dtype, {1, 2, Stream{5}}, 0.37);
    check_same_bits(target.name() + " normal", target.backend->to_host(here), on_host.backend->to_host(there));
    StatisticsRequest request{.moments = true, .squares = true, .cosine_of_sequences = 1, .top_magnitudes = largest};
    request.top_entries = largest;
    request.median_magnitude = request.column_maxima = true;
    check_same_bits(target.name() + " measure", target.backend->to_host(target.backend->measure(here, request)),
                    on_host.backend->to_host(on_host.backend->measure(there, request)));
  }
}

}  // namespace
}  // namespace periscope::testing
