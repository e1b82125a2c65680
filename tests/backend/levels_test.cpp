#include "sim/cpu/levels.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/processor.h"
#include "sim/cpu/backend.h"
#include "tests/support/doctest.h"

/// Instruction-set levels of the CPU backend: selection, exceptions, and tensors passed between levels. The other tests
/// of this folder compare every level with the reference.
namespace periscope::testing {
namespace {

constexpr CpuLevel example_levels[] = {{"x86-64-v3", 3, nullptr}, {"x86-64-v4", 4, nullptr}};

std::string name_chosen(std::string_view wanted, int processor) {
  return std::string(chosen_level(wanted, example_levels, processor).name);
}

std::vector<const CpuLevel*> possible_levels() {
  std::vector<const CpuLevel*> possible;
  for (const CpuLevel& level : cpu_levels())
    if (level.processor <= processor_level()) possible.push_back(&level);
  return possible;
}

TEST_CASE("levels: the best supported or the requested level is chosen; unknown or unsupported levels are rejected") {
  CHECK(name_chosen("", 4) == "x86-64-v4");
  CHECK(name_chosen("", 3) == "x86-64-v3");
  CHECK(name_chosen("x86-64-v3", 4) == "x86-64-v3");
  CHECK(name_chosen("x86-64-v4", 4) == "x86-64-v4");
  CHECK_THROWS_WITH_AS((void)name_chosen("avx", 4), doctest::Contains("PERISCOPE_INSTRUCTIONS"), ConfigError);
  CHECK_THROWS_WITH_AS((void)name_chosen("x86-64-v4", 3), doctest::Contains("PERISCOPE_INSTRUCTIONS"), ConfigError);
}

TEST_CASE("levels: the lowest level runs on this processor and matches the rest of the program") {
  REQUIRE_FALSE(possible_levels().empty());
  CHECK(cpu_levels().front().name == instructions_of("reference"));
  CHECK(instructions_of("cpu") == cpu_level().name);
  CHECK(std::ranges::is_sorted(cpu_levels(), {}, &CpuLevel::processor));
}

// Products have the same summation order at every level; Eigen's exp and row sums differ with the vector width.
TEST_CASE("levels: results of one level are bitwise reproducible; two levels round differently") {
  const auto results = [](const CpuLevel& level, DType dtype) {
    const auto ops = level.make();
    const Tensor x = ops->normal(29, 517, dtype, {1, 0, Stream{1}}, 1.0);
    const Tensor w = ops->normal(31, 517, dtype, {1, 0, Stream{2}}, 1.0);
    const Tensor gain = ops->constant(1, 31, dtype, 1.0);
    const Tensor y = ops->activate(Activation::silu, ops->norm(NormKind::layer, ops->linear(x, w), gain, {}, 1e-6));
    return ops->to_host(y);
  };
  const auto levels = possible_levels();
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const CpuLevel* level : levels) CHECK(results(*level, dtype) == results(*level, dtype));
    if (levels.size() == 2) CHECK(results(*levels[0], dtype) != results(*levels[1], dtype));
  }
}

TEST_CASE("levels: exceptions preserve their types") {
  const auto failing = [](const auto& error) {
    return FillRows([error]<class T>(Tensor::Index, Tensor::Index, std::span<T>) -> void { throw error; });
  };
  for (const CpuLevel* level : possible_levels()) {
    CAPTURE(level->name);
    const auto ops = level->make();
    CHECK_THROWS_AS((void)ops->from_rows(3, 5, DType::f32, failing(ConfigError("x"))), ConfigError);
    CHECK_THROWS_AS((void)ops->from_rows(3, 5, DType::f32, failing(InputError("x"))), Error);
    CHECK_THROWS_AS((void)ops->from_rows(3, 5, DType::f64, failing(std::length_error("x"))), std::logic_error);
    CHECK_THROWS_AS((void)ops->linear(ops->constant(2, 3, DType::f32, 1.0), ops->constant(2, 4, DType::f32, 1.0)),
                    std::invalid_argument);
  }
}

TEST_CASE("levels: a level accepts tensors of another level") {
  const auto levels = possible_levels();
  const auto first = levels.front()->make();
  const auto last = levels.back()->make();
  const Tensor x = first->normal(64, 2048, DType::f64, {1, 0, Stream{1}}, 1.0);
  const std::vector<double> sum = last->to_host(last->axpby(1.0, x, 1.0, first->scale(-1.0, x)));
  CHECK(std::ranges::all_of(sum, [](double v) { return v == 0.0; }));
}

}  // namespace
}  // namespace periscope::testing
