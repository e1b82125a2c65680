#include "experiments/engine/run/progress_meter.h"

#include <chrono>
#include <thread>

#include "tests/support/doctest.h"

namespace periscope::stacks {

TEST_CASE("no estimate of the remaining time from the first moments: they are spent on preparations") {
  Work all;
  all.of(WorkKind::measurement) = 1000.0;
  ProgressMeter meter;
  meter.start(all, 0);
  meter.next(WorkKind::measurement, 1000.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  meter.part(1e-5);  // 1.05 s for that share would be a day for all
  CHECK_FALSE(meter.seconds_left().has_value());
  meter.part(0.05);
  REQUIRE(meter.seconds_left().has_value());
  CHECK(*meter.seconds_left() > 19.0);
  CHECK(*meter.seconds_left() < 60.0);
}

}  // namespace periscope::stacks
