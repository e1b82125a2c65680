#include "experiments/engine/run/journal.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/outputs/disk_faults.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

/// What of a journal a loss of power may take.
namespace periscope::testing {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("a new journal and its name are on the disk before anything is computed, and every appended record at once") {
  const TemporaryFolder folder;
  const DiskLog log(folder.path() + "/");
  stacks::Journal journal(folder.path("out/a.journal"), {{"run", "a"}});
  const Names created{"sync " + folder.path(), "sync out/a.journal", "sync out"};
  CHECK(log.lines() == created);
  journal.append({{"i", 1}});
  Names appended = created;
  appended.emplace_back("sync out/a.journal");
  CHECK(log.lines() == appended);
}

TEST_CASE("noted records are synced together, those of a second at most") {
  const TemporaryFolder folder;
  stacks::Journal journal(folder.path("a.journal"), {{"run", "a"}});
  const DiskLog log(folder.path() + "/");
  for (int i = 0; i < 100; ++i) journal.note({{"i", i}});
  CHECK(log.lines().size() <= 1);  // one, if the machine stood still for a second
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  journal.note({{"i", 100}});
  CHECK(std::ranges::count(log.lines(), "sync a.journal") >= 1);
}

}  // namespace
}  // namespace periscope::testing
