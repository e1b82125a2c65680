#include <filesystem>

#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/sweeps/small_sweep.h"

namespace periscope::testing {
namespace {

using sweeps::CellId;
using sweeps::CellIndex;
using sweeps::StoredCell;

dataset::Dataset small_dataset(double value) {
  return {.dimensions = {{"depth", 2}},
          .columns = {{"depth", {"depth"}, std::vector<std::int64_t>{0, 1}, "1", "depth"},
                      {"x", {"depth"}, std::vector{value, -0.0}, "1", "a number"},
                      {"words", {}, std::vector<std::string>{"ä\n"}, "", "a text"}}};
}

std::vector<StoredCell> three_cells() {
  return {sweeps::stored_cell({1, 2, 3, 4}, ExitCode::ok, small_dataset(0.1)),
          sweeps::failed_cell({5, 6, 7, 8}, ExitCode::configuration, "model.width = 0: expected …"),
          sweeps::stored_cell({1, 2, 3, 5}, ExitCode::check_failed, small_dataset(0.2))};
}

std::string file_of(const TemporaryFolder& folder, const std::vector<StoredCell>& cells) {
  std::vector<CellId> ids;
  for (const StoredCell& cell : cells) ids.push_back(cell.id);
  return sweeps::block_file(folder.path(), ids);
}

TEST_CASE("sweep store: cells are read back; equal layouts are stored once") {
  const TemporaryFolder folder;
  const std::vector<StoredCell> cells = three_cells();
  sweeps::write_block(folder.path(), cells);
  const std::vector<StoredCell> read = sweeps::read_block(file_of(folder, cells));
  REQUIRE(read.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(read[i].id == cells[i].id);
    CHECK(read[i].code == cells[i].code);
    CHECK(read[i].values == cells[i].values);
    CHECK(read[i].failed() == (i == 1));
  }
  CHECK(read[0].layout == read[2].layout);
  const dataset::Dataset layout = sweeps::layout_of(*read[2].layout);
  CHECK(layout.columns[1].units == "1");
  CHECK(sweeps::values_of(*read[2].coordinates)[0] == dataset::Values(std::vector<std::int64_t>{0, 1}));
  CHECK(std::get<std::vector<double>>(sweeps::values_of(read[2].values)[0])[0] == 0.2);
}

TEST_CASE("sweep store: a result takes precedence over a failure of the same cell") {
  const TemporaryFolder folder;
  sweeps::write_block(folder.path(), three_cells());
  sweeps::write_block(folder.path(), {sweeps::stored_cell({5, 6, 7, 8}, ExitCode::ok, small_dataset(0.3))});
  const CellIndex index(folder.path());
  REQUIRE(index.find({5, 6, 7, 8}) != nullptr);
  CHECK(!index.find({5, 6, 7, 8})->failed);
  CHECK(index.find({1, 2, 3, 5})->code == ExitCode::check_failed);
  CHECK(index.find({1, 2, 3, 6}) == nullptr);
}

TEST_CASE("sweep store: truncated, changed and foreign files are named and ignored") {
  const TemporaryFolder folder;
  const std::vector<StoredCell> cells = three_cells();
  const std::string file = file_of(folder, cells);
  sweeps::write_block(folder.path(), cells);
  const std::string good = bytes_of_file(file);
  const std::string name = std::filesystem::relative(file, folder.path()).string();
  const auto is_ignored = [&](const std::string& bytes) {
    folder.write(name, bytes);
    const CellIndex index(folder.path());
    return index.find(cells[0].id) == nullptr && index.damaged().size() == 1 && index.damaged()[0].starts_with(file);
  };
  for (std::size_t length = 0; length < good.size(); length += 1 + good.size() / 40) {
    CHECK(is_ignored(good.substr(0, length)));
  }
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 40) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(is_ignored(changed));
  }
  CHECK(is_ignored("foreign"));
  folder.write(name, good);
  folder.write("cells/ab/0123.tmp", "being written");
  const CellIndex index(folder.path());
  CHECK(index.find(cells[0].id) != nullptr);
  CHECK(index.damaged().empty());
}

}  // namespace
}  // namespace periscope::testing
