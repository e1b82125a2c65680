#include "sim/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "sim/base/error.h"
#include "sim/files/destination.h"
#include "tests/outputs/disk_faults.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names names_in(const std::string& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST_CASE("write_file preserves the old file if the disk is full at any byte") {
  const TemporaryFolder folder;
  const std::string path = folder.write("result.json", "the old file");
  const std::string text(300, 'x');
  for (std::size_t room = 0; room <= text.size(); ++room) {
    CAPTURE(room);
    const DiskWithRoom disk(static_cast<std::int64_t>(room));
    if (room < text.size()) {
      CHECK_THROWS_WITH_AS(write_file(path, text), doctest::Contains(path.c_str()), Error);
      REQUIRE(bytes_of_file(path) == "the old file");
    } else {
      write_file(path, text);
      CHECK(bytes_of_file(path) == text);
    }
    REQUIRE(names_in(folder.path()) == Names{"result.json"});
  }
}

TEST_CASE("write_file completes short writes") {
  const TemporaryFolder folder;
  std::string text(1000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
  const ShortWrites short_writes(7);
  write_file(folder.path("file"), text);
  CHECK(bytes_of_file(folder.path("file")) == text);
  const std::string log = folder.path("log");
  const int descriptor = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
  CHECK(write_all(descriptor, text) == 0);
  ::close(descriptor);
  CHECK(bytes_of_file(log) == text);
}

TEST_CASE("write_file syncs the file before the rename and the folder after it") {
  const TemporaryFolder folder;
  const DiskLog log(folder.path() + "/");
  write_file(folder.path("a/result.json"), "text");
  CHECK(log.lines() == Names{"sync " + folder.path(), "sync a/result.json.*.tmp",
                             "rename a/result.json.*.tmp a/result.json", "sync a"});
}

TEST_CASE("write_file replaces the target of a symbolic link and preserves the link") {
  const TemporaryFolder folder;
  const std::string target = folder.write("far/target.json", "old");
  fs::create_symlink("far/target.json", folder.path("link.json"));
  fs::create_symlink(folder.path("link.json"), folder.path("link to link.json"));
  write_file(folder.path("link to link.json"), "new");
  CHECK(bytes_of_file(target) == "new");
  CHECK(fs::is_symlink(folder.path("link.json")));
  CHECK(fs::is_symlink(folder.path("link to link.json")));
  CHECK(names_in(folder.path("far")) == Names{"target.json"});

  fs::create_symlink("far/not yet.json", folder.path("dangling.json"));
  write_file(folder.path("dangling.json"), "made");
  CHECK(bytes_of_file(folder.path("far/not yet.json")) == "made");
  CHECK(fs::is_symlink(folder.path("dangling.json")));

  fs::create_symlink("loop.json", folder.path("loop.json"));
  CHECK_THROWS_WITH_AS(write_file(folder.path("loop.json"), "x"), doctest::Contains("symbolic links"), Error);
}

TEST_CASE("OutputFile rejects FIFOs, devices, folders and descriptors") {
  const TemporaryFolder folder;
  const std::string fifo = folder.path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  fs::create_symlink("/dev/null", folder.path("to null"));
  const auto check_rejected = [](const std::string& path, const std::string& what) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(OutputFile{path}, doctest::Contains(what.c_str()), ConfigError);
  };
  check_rejected(fifo, "found a FIFO");
  check_rejected(folder.path("to null"), "found a character device");
  check_rejected("/dev/full", "found a character device");
  check_rejected(folder.path(), "found a folder");
  check_rejected(folder.path() + "/", "found a folder");
  check_rejected(folder.path("absent/"), "found a folder name");
  check_rejected(folder.write("file", "") + "/result.nc", "file: expected a folder, found a regular file");
  check_rejected("/dev/stdout", "found an open descriptor");
  check_rejected("", "expected a file name");
  CHECK(fs::is_fifo(fifo));
  CHECK(names_in(folder.path()) == Names{"fifo", "file", "to null"});
}

TEST_CASE("OutputFile removes temporary files of killed writers but not of active writers") {
  const TemporaryFolder folder;
  const std::string path = folder.path("result.nc");
  folder.write("result.nc.0123456789abcdef.tmp", "left");
  const Names others{"others.nc.0123456789abcdef.tmp", "result.nc.0123456789abcde.tmp",
                     "result.nc.0123456789abcdeg.tmp", "result.nc.tmp"};
  for (const std::string& name : others) folder.write(name, "not ours");
  {
    OutputFile active(path);
    CHECK(names_in(folder.path()).size() == others.size() + 1);
    active.write_at(0, "first");
    write_file(path, "second");
    CHECK(bytes_of_file(path) == "second");
    active.commit();
    CHECK(bytes_of_file(path) == "first");
  }
  Names expected = others;
  expected.push_back("result.nc");
  std::ranges::sort(expected);
  CHECK(names_in(folder.path()) == expected);
}

TEST_CASE("write_file creates folders that another process removes several times") {
  const TemporaryFolder folder;
  const fs::path inner = folder.path("cache/task");
  std::atomic<int> removals = 0;
  std::atomic<bool> done = false;
  const std::jthread other([&] {
    std::error_code not_empty;
    while (!done) {
      if (removals == 0 || !fs::remove(inner, not_empty)) continue;
      fs::remove(inner.parent_path(), not_empty);
      if (removals > 0) --removals;
    }
  });
  for (int i = 0; i < 50; ++i) {
    removals = 10;
    CHECK_NOTHROW(write_file(inner / "file", "x"));
    removals = 0;
    std::error_code absent;
    fs::remove(inner / "file", absent);
  }
  done = true;
}

TEST_CASE("write_file preserves the mode of a replaced file; the mode of a new file follows the umask") {
  const TemporaryFolder folder;
  const std::string path = folder.write("secret", "");
  fs::permissions(path, fs::perms::owner_read);
  write_file(path, "new");
  CHECK(fs::status(path).permissions() == fs::perms::owner_read);
  const mode_t before = ::umask(027);
  write_file(folder.path("fresh"), "");
  ::umask(before);
  CHECK(static_cast<unsigned>(fs::status(folder.path("fresh")).permissions()) == 0640);
}

TEST_CASE("write_file accepts names of any bytes, up to the maximum length") {
  const TemporaryFolder folder;
  for (const std::string& name : {std::string("caf\xe9/\xff\x01\n.nc"), std::string(255, 'n')}) {
    write_file(folder.path(name), "x");
    CHECK(bytes_of_file(folder.path(name)) == "x");
  }
  CHECK_THROWS_WITH_AS(write_file(folder.path(std::string(256, 'n')), ""), doctest::Contains("File name too long"),
                       Error);
}

}  // namespace
}  // namespace periscope::testing
