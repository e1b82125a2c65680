#include "experiments/engine/run/progress.h"

#include <chrono>
#include <thread>

#include "tests/support/doctest.h"

namespace periscope::stacks {

TEST_CASE("remaining time is estimated only from two or more tasks computed with the current label") {
  CHECK_FALSE(ProgressMeter().share().has_value());
  ProgressMeter meter{.tasks = 100, .cached = 50.0, .part = 0.5};
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(meter.seconds_left().has_value());
  meter.computed = 2.0;
  meter.part = 0.0;
  REQUIRE(meter.seconds_left().has_value());
  CHECK(*meter.seconds_left() >= 2.4);  // 48 more tasks of 0.05 s
  CHECK(*meter.seconds_left() < 60.0);
  CHECK(meter.done() == 52.0);
  CHECK(*meter.share() == 0.52);
  meter.computed_before = 1.0;
  CHECK_FALSE(meter.seconds_left().has_value());
}

}  // namespace periscope::stacks
