#include "sim/base/first_exception.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/threads.h"

namespace periscope {

TEST_CASE("an exception leaves a parallel loop as it was thrown, whatever the number of threads") {
  for (const int count : {1, 2, 4}) {
    const testing::Threads threads(count);
    FirstException failure;
    std::vector<int> done(64, 0);
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < 64; ++i) {
      failure.run([&] {
        if (i % 8 == 7) throw std::out_of_range("iteration " + std::to_string(i % 8));
        done[static_cast<std::size_t>(i)] = 1;
      });
    }
    CHECK(failure.failed());
    CHECK_THROWS_WITH_AS(failure.rethrow(), "iteration 7", std::out_of_range);
    if (count > 1) continue;
    std::vector<int> before(64, 0);  // what comes after the failure is skipped
    for (std::size_t i = 0; i < 7; ++i) before[i] = 1;
    CHECK(done == before);
  }
}

TEST_CASE("without an exception everything runs and nothing is thrown") {
  FirstException failure;
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 100; ++i) failure.run([&] { sum += i; });
  CHECK(sum == 4950);
  CHECK_FALSE(failure.failed());
  CHECK_NOTHROW(failure.rethrow());
}

}  // namespace periscope
