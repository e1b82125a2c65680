#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"
#include "tests/support/threads.h"

namespace periscope::testing {
namespace {

// tests/gradient/backend_gradient_test.cpp checks the same for whole passes.
TEST_CASE("every op gives the same bits for 1, 2 and 3 threads") {
  for (const Target& target : targets()) {
    const OpInputs in = inputs_on(target);
    for (const OpCase& c : op_cases()) {
      const auto run = [&](int count) {
        const Threads threads(count);
        return values_of(c.run(in), in.ops);
      };
      const std::vector<double> alone = run(1);
      for (const int count : {2, 3}) {
        check_same_bits(target.name() + " " + std::string(c.op.name) + ", threads " + std::to_string(count), run(count),
                        alone);
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
