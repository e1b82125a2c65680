#include "sim/cpu/levels.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/processor.h"
#include "sim/cpu/backend.h"
#include "tests/support/doctest.h"

/// The levels of the CPU's ops: which one is chosen, and what crosses their borders. Their numbers are compared with
/// the reference's by all tests of backends, whose targets they are.
namespace periscope::testing {
namespace {

constexpr CpuLevel made_up[] = {{"x86-64-v3", 3, nullptr}, {"x86-64-v4", 4, nullptr}};

std::string name_chosen(std::string_view wanted, int processor) {
  return std::string(chosen_level(wanted, made_up, processor).name);
}

std::string rejection(std::string_view wanted, int processor) {
  try {
    return "no rejection, but " + name_chosen(wanted, processor);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::vector<const CpuLevel*> possible_levels() {
  std::vector<const CpuLevel*> possible;
  for (const CpuLevel& level : cpu_levels()) {
    if (level.processor <= processor_level()) possible.push_back(&level);
  }
  return possible;
}

TEST_CASE("levels: the best that the processor has, or the one that is asked for") {
  CHECK(name_chosen("", 4) == "x86-64-v4");
  CHECK(name_chosen("", 3) == "x86-64-v3");
  CHECK(name_chosen("x86-64-v3", 4) == "x86-64-v3");
  CHECK(name_chosen("x86-64-v4", 4) == "x86-64-v4");
}

TEST_CASE("levels: what cannot be is refused with words") {
  CHECK(rejection("avx", 4) == "PERISCOPE_INSTRUCTIONS = \"avx\": expected x86-64-v3 or x86-64-v4");
  CHECK(rejection("x86-64-v4", 3) ==
        "PERISCOPE_INSTRUCTIONS = \"x86-64-v4\", unsupported by this processor: expected x86-64-v3");
}

TEST_CASE("levels: the build has one for the instructions of everything else, and the processor has it") {
  REQUIRE_FALSE(possible_levels().empty());
  CHECK(cpu_levels().front().name == instructions_of("reference"));
  CHECK(instructions_of("cpu") == cpu_level().name);
  CHECK(std::ranges::is_sorted(cpu_levels(), {}, &CpuLevel::processor));
}

// Products are summed in one order at every level; the vectors of Eigen's exp, and of sums over rows, differ.
TEST_CASE("levels: one rounds alike every time, two do not") {
  const auto passed_on = [](const CpuLevel& level, DType dtype) {
    const auto ops = level.make();
    const Tensor x = ops->normal(29, 517, dtype, {1, 0, Stream{1}}, 1.0);
    const Tensor w = ops->normal(31, 517, dtype, {1, 0, Stream{2}}, 1.0);
    const Tensor gain = ops->constant(1, 31, dtype, 1.0);
    const Tensor y = ops->activate(Activation::silu, ops->norm(NormKind::layer, ops->linear(x, w), gain, {}, 1e-6));
    return ops->to_host(y);
  };
  const auto levels = possible_levels();
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const CpuLevel* level : levels) CHECK(passed_on(*level, dtype) == passed_on(*level, dtype));
    if (levels.size() == 2) CHECK(passed_on(*levels[0], dtype) != passed_on(*levels[1], dtype));
  }
}

TEST_CASE("levels: normal numbers are the same bits") {
  const auto numbers = [](const CpuLevel& level) {
    const auto ops = level.make();
    return ops->to_host(ops->normal(37, 101, DType::f64, {5, 1, Stream{3}}, 0.3));
  };
  for (const CpuLevel* level : possible_levels()) CHECK(numbers(*level) == numbers(cpu_levels().front()));
}

TEST_CASE("levels: exceptions cross the border with their types") {
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

TEST_CASE("levels: one takes the tensors of another, and their memory goes back to one pool") {
  const auto levels = possible_levels();
  const auto first = levels.front()->make();
  const auto last = levels.back()->make();
  const Tensor x = first->normal(64, 2048, DType::f64, {1, 0, Stream{1}}, 1.0);
  const std::vector<double> sum = last->to_host(last->axpby(1.0, x, 1.0, first->scale(-1.0, x)));
  CHECK(std::ranges::all_of(sum, [](double v) { return v == 0.0; }));
}

}  // namespace
}  // namespace periscope::testing
