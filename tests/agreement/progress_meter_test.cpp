#include "experiments/engine/run/progress.h"

#include <chrono>
#include <thread>

#include "tests/support/doctest.h"

namespace periscope::stacks {

TEST_CASE("the remaining time follows from computed tasks, after the first: cached ones cost nothing") {
  CHECK_FALSE(ProgressMeter().share().has_value());
  ProgressMeter meter{.tasks = 100, .cached = 50.0, .part = 0.5};
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(meter.seconds_left().has_value());
  meter.computed = 1.0;
  meter.part = 0.0;
  REQUIRE(meter.seconds_left().has_value());
  CHECK(*meter.seconds_left() >= 4.9);  // 49 more tasks of 0.1 s
  CHECK(*meter.seconds_left() < 60.0);
  CHECK(meter.done() == 51.0);
  CHECK(*meter.share() == 0.51);
}

}  // namespace periscope::stacks
