#include "sim/base/first_exception.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/threads.h"

namespace periscope {

TEST_CASE("FirstException rethrows the exception of a parallel loop, for any number of threads") {
  for (const int count : {1, 2, 4}) {
    const testing::Threads threads(count);
    FirstException none;
    none.run([] {});
    CHECK_FALSE(none.failed());
    CHECK_NOTHROW(none.rethrow());
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
    std::vector<int> before(64, 0);  // iterations after the failure are skipped
    for (std::size_t i = 0; i < 7; ++i) before[i] = 1;
    CHECK(done == before);
  }
}

}  // namespace periscope
