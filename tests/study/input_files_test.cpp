#include "experiments/core/config/input_file.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

/// A process that has several runs, one after the other or beside each other, and files that change between them.
namespace periscope::testing {
namespace {

TEST_CASE("input files: a run sees one content, the next run what is there then") {
  const TemporaryFolder folder;
  const std::string path = folder.write("text.txt", "first");
  {
    const config::RunOfInputFiles run;
    CHECK(config::input_file(path).head == "first");
    folder.write("text.txt", "second");
    CHECK(config::input_file(path).head == "first");
  }
  const config::RunOfInputFiles run;
  CHECK(config::input_file(path).head == "second");
}

TEST_CASE("input files: a run that would get another run's old content is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.write("text.txt", "first");
  const std::string steady = folder.write("steady.txt", "steady");
  const config::RunOfInputFiles run;
  CHECK(config::input_file(path).head == "first");
  CHECK(config::input_file(steady).head == "steady");
  { const config::RunOfInputFiles beside; }  // nothing has changed
  folder.write("text.txt", "other text");
  try {
    const config::RunOfInputFiles late;
    FAIL("expected an error");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find(path) == 0);
  }
  CHECK(config::input_file(path).head == "first");
}

}  // namespace
}  // namespace periscope::testing
