#include <filesystem>

#include "experiments/app/netcdf_file.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "tests/outputs/disk_faults.h"
#include "tests/outputs/read_netcdf.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

dataset::Dataset small_dataset() {
  dataset::Dataset data;
  data.dimensions = {{"seed", 2, true}, {"depth", 3, false}};
  // Neither in alphabetical order nor in reverse.
  data.columns = {{"variance", {"seed", "depth"}, std::vector<double>{1, 2, 3, 4, 5, 6}, "1", "of the stream"},
                  {"depth", {"depth"}, std::vector<double>{0, 1, 2}, "1", "sublayers passed"},
                  {"placement", {"depth"}, std::vector<std::string>{"pre", "", "peri"}, "", "which"},
                  {"first", {"seed"}, std::vector<std::int64_t>{dataset::missing_integer, 1LL << 62}, "1", "seeds"},
                  {"diverged", {"depth"}, std::vector<std::uint8_t>{0, 1, dataset::missing_boolean}, "1", "whether"}};
  data.attributes = {{"zeta", 1}, {"alpha", 0.1}, {"long", std::string(300'000, 'c')}, {"beta", "text"}};
  return data;
}

TEST_CASE("NetCDF: round-trips values, order and long attributes, with any bytes in the path") {
  const TemporaryFolder folder;
  const std::string path = folder.path("caf\xe9/\xff.nc");
  const dataset::Dataset written = small_dataset();
  const std::string hash = app::write_netcdf(path, written);
  CHECK(hash == config::sha256_hex(bytes_of_file(path)));
  const dataset::Dataset read = read_netcdf(path);
  CHECK((read.dimensions == written.dimensions));
  CHECK((read.attributes == written.attributes));
  REQUIRE(read.columns.size() == written.columns.size());
  for (std::size_t i = 0; i < read.columns.size(); ++i) {
    const dataset::Column& r = read.columns[i];
    const dataset::Column& w = written.columns[i];
    CAPTURE(w.name);
    CHECK(r.name == w.name);
    CHECK(r.dimensions == w.dimensions);
    CHECK(r.units == w.units);
    CHECK(r.meaning == w.meaning);
    CHECK((r.values == w.values));
  }
}

TEST_CASE("NetCDF: a full disk preserves the old file") {
  const TemporaryFolder folder;
  const std::string path = folder.path("result.nc");
  dataset::Dataset data = small_dataset();
  data.attributes.erase("long");
  app::write_netcdf(path, data);
  const std::string old = bytes_of_file(path);
  // Every 11th byte saves time and still reaches every position modulo a block.
  for (std::size_t room = 0; room < old.size(); room += 11) {
    CAPTURE(room);
    const DiskWithRoom disk(static_cast<std::int64_t>(room));
    CHECK_THROWS_WITH_AS(app::write_netcdf(path, data), doctest::Contains(path.c_str()), Error);
    REQUIRE(bytes_of_file(path) == old);
    REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  }
}

TEST_CASE("NetCDF: invalid data is rejected by file name and leaves no file") {
  const TemporaryFolder folder;
  dataset::Dataset data = small_dataset();
  data.columns[2].name = "variance";
  CHECK_THROWS_WITH_AS(app::write_netcdf(folder.path("a.nc"), data), doctest::Contains(folder.path("a.nc").c_str()),
                       Error);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace periscope::testing
