#include "sim/files/output_folder.h"

#include <filesystem>

#include "sim/base/error.h"
#include "tests/outputs/disk_faults.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

using Lines = std::vector<std::string>;

void write_set(const std::string& folder, const std::string& text, bool overwrite) {
  OutputFolder files(folder, {"tensors", "config"}, overwrite);
  files.file(0).write_at(0, text);
  files.file(1).write_at(0, text);
  files.commit();
}

TEST_CASE("OutputFolder syncs all files before the first rename; it removes the marker file first and writes it last") {
  const TemporaryFolder folder;
  for (const bool replaces : {false, true}) {
    CAPTURE(replaces);
    const DiskLog log(folder.path() + "/");
    write_set(folder.path("a"), replaces ? "new" : "old", replaces);
    Lines expected{"sync a/tensors.*.tmp", "sync a/config.*.tmp", "unlink a/config"};
    if (replaces) expected.push_back("sync a");
    expected.insert(expected.end(),
                    {"rename a/tensors.*.tmp a/tensors", "sync a", "rename a/config.*.tmp a/config", "sync a"});
    if (!replaces) expected.insert(expected.begin(), "sync " + folder.path());
    CHECK(log.lines() == expected);
  }
  CHECK(bytes_of_file(folder.path("a/tensors")) == "new");
  CHECK(bytes_of_file(folder.path("a/config")) == "new");
}

TEST_CASE("OutputFolder replaces an existing file only with overwrite") {
  for (const std::string name : {"tensors", "config"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string path = folder.write("a/" + name, "old");
    CHECK_THROWS_WITH_AS(write_set(folder.path("a"), "new", false), doctest::Contains(path.c_str()), ConfigError);
    CHECK(bytes_of_file(path) == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path("a")), {}) == 1);
    write_set(folder.path("a"), "new", true);
    CHECK(bytes_of_file(path) == "new");
  }
}

TEST_CASE("OutputFolder rejects a second writer") {
  const TemporaryFolder folder;
  {
    const OutputFolder first(folder.path("a"), {"tensors", "config"}, false);
    CHECK_THROWS_WITH_AS(write_set(folder.path("a"), "second", true), doctest::Contains(folder.path("a").c_str()),
                         ConfigError);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("a")));
  write_set(folder.path("a"), "third", false);
}

TEST_CASE("OutputFolder preserves all old files if the disk is full at any byte") {
  const TemporaryFolder folder;
  write_set(folder.path("a"), "old", false);
  const std::string text(50, 'x');
  for (std::size_t room = 0; room < 2 * text.size(); ++room) {
    CAPTURE(room);
    const DiskWithRoom disk(static_cast<std::int64_t>(room));
    CHECK_THROWS_WITH_AS(write_set(folder.path("a"), text, true), doctest::Contains("No space left on device"), Error);
    REQUIRE(bytes_of_file(folder.path("a/tensors")) == "old");
    REQUIRE(bytes_of_file(folder.path("a/config")) == "old");
    REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path("a")), {}) == 2);
  }
}

}  // namespace
}  // namespace periscope::testing
