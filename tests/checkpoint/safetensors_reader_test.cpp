#include "sim/checkpoint/safetensors_reader.h"

#include <sys/stat.h>
#include <unistd.h>
#include "tests/support/doctest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

namespace fs = std::filesystem;

TEST_CASE("values are read whole and in parts, as double and float; the reader is movable") {
  constexpr std::size_t many = 300'000;  // more than one piece
  std::vector<double> numbers(many);
  for (std::size_t i = 0; i < many; ++i) numbers[i] = 0.1 * static_cast<double>(i) - 7.0;
  const std::vector<float> floats(numbers.begin(), numbers.end());
  const TemporaryFolder folder;
  const std::string path = folder.path("a.safetensors");
  SafetensorsWriter writer(path, {{"x", SafetensorsType::f64, {3, many / 3}},
                                  {"ids", SafetensorsType::i64, {2}},
                                  {"y", SafetensorsType::f32, {many}},
                                  {"none", SafetensorsType::f32, {0}}});
  writer.put("x", numbers);
  writer.put("y", floats);
  writer.put("ids", std::vector<std::int64_t>{-1, 1LL << 60});
  writer.put("none", std::vector<float>{});
  writer.close();

  SafetensorsFile first(path);
  const SafetensorsFile file = std::move(first);
  CHECK(file.values("x") == numbers);
  CHECK(file.values("y") == std::vector<double>(floats.begin(), floats.end()));
  CHECK(file.values("none").empty());
  CHECK(file.values("ids") == std::vector<double>{-1, 0x1p60});
  std::vector<float> part(200'000);
  file.read("x", 50'000, std::span(part));
  CHECK(std::equal(part.begin(), part.end(), floats.begin() + 50'000));
  CHECK_THROWS_AS(file.read("x", 200'000, std::span(part)), std::out_of_range);
  CHECK(file.values("x") == numbers);  // after its pages were released
}

/// Returns the resident memory of this process in bytes, including mapped files.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_CASE("reading a large file leaves little of it in memory") {
  constexpr std::size_t many = 8'000'000;
  const std::string header = R"({"x":{"dtype":"F32","shape":[8000000],"data_offsets":[0,32000000]}})";
  const TemporaryFolder folder;
  const SafetensorsFile file(folder.write("a.safetensors", safetensors_bytes(header, std::string(4 * many, '\0'))));
  std::vector<float> part(many / 10);
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < 10; ++i) file.read("x", i * part.size(), std::span(part));
  constexpr std::size_t little = 8'000'000;  // bytes, a quarter of the file: a few pieces and other allocations
  CHECK(resident_bytes() < before + little);
}

TEST_CASE("an unknown tensor name is rejected with the nearest name") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_bytes(R"({"layer.10":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                                      R"("layer.2":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"));
  CHECK_THROWS_WITH_AS(static_cast<void>(SafetensorsFile(path).find("layer.1")),
                       doctest::Contains("nearest is \"layer.10\""), InputError);
  const std::string empty = folder.write("b.safetensors", safetensors_bytes("{}"));
  CHECK_THROWS_WITH_AS(static_cast<void>(SafetensorsFile(empty).find("x")),
                       doctest::Contains("no tensor \"x\" among 0"), InputError);
}

TEST_CASE("unreadable files are rejected without blocking") {
  const TemporaryFolder folder;
  const auto check_rejected = [&](const std::string& path, const std::string& why) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(SafetensorsFile{path}, doctest::Contains((path + ": " + why).c_str()), InputError);
  };
  check_rejected(folder.path("missing"), "cannot open: No such file or directory");
  check_rejected(folder.path(), "expected a regular file, found a folder");
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_rejected(pipe, "expected a regular file, found a FIFO");  // without blocking
  check_rejected("/dev/null", "expected a regular file, found a character device");
  const std::string loop = folder.path("loop");
  fs::create_symlink(loop, loop);
  check_rejected(loop, "cannot open: Too many levels of symbolic links");
  check_rejected(folder.write("empty", ""), "0 bytes, expected the header's length in the first 8");
  check_rejected(folder.write("lfs", "version https://git-lfs.github.com/spec/v1\n"),
                 "this is a Git LFS pointer, not the file");
  check_rejected(folder.write("pytorch_model.bin", "PK\x03\x04 archive"),
                 "this is a zip archive, such as a PyTorch checkpoint");
  const std::string secret = folder.write("secret", safetensors_bytes("{}"));
  fs::permissions(secret, fs::perms::none);
  if (std::ifstream(secret)) {
    MESSAGE("skipped: this user may read everything, so no file is unreadable");
  } else {
    check_rejected(secret, "cannot open: Permission denied");
  }
}

TEST_CASE("a file that changes during reading is rejected without a crash") {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2000000],"data_offsets":[0,8000000]}})";
  const std::string bytes = safetensors_bytes(header, std::string(8'000'000, '\0'));
  const TemporaryFolder folder;
  const std::string cut = folder.write("cut", bytes);
  const SafetensorsFile file(cut);
  CHECK(file.values("x").size() == 2'000'000);
  fs::resize_file(cut, 1000);
  CHECK_THROWS_WITH_AS(static_cast<void>(file.values("x")), doctest::Contains("changed while it was being read"),
                       InputError);
  const std::string touched = folder.write("touched", bytes);
  const SafetensorsFile other(touched);
  fs::last_write_time(touched, fs::last_write_time(touched) + std::chrono::seconds(1));
  CHECK_THROWS_AS(static_cast<void>(other.values("x")), InputError);
}

}  // namespace
}  // namespace periscope::testing
