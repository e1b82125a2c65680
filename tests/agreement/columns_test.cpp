#include "experiments/core/dataset/columns.h"

#include <cmath>
#include <set>
#include <stdexcept>

#include "experiments/app/list.h"
#include "experiments/app/netcdf_reader.h"
#include "experiments/core/dataset/text_table.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

/// A run of training, whose number of steps is not known in advance.
Schema training() {
  return {"training",
          3,
          {{"cell"}, {"step", "1", "steps taken", "", true}, {"site", "", "place in the dataflow"}},
          {{"placement", "cell", "", "normalization placement", "cells/[cell]/placement"},
           {"loss", "cell step", "nat", "mean loss", "cells/[cell]/loss"},
           {"size", "cell site step", "1", "size at a site", "cells/[cell]/sites/{site}/size"},
           {"seconds", "", "s", "that it took", "seconds"},
           {"gains", "cell site", "1", "gains", "", "many numbers"},
           json_only("notes", "notes", "what else there is to know", "words for people")}};
}

std::string units_in(const dataset::Dataset& data, const std::string& name) { return data.find(name)->units; }

}  // namespace

TEST_CASE("one declaration makes JSON and the file: rows by place, a free dimension as long as the longest row") {
  const Schema schema = training();
  Columns columns(schema, {{"program", "periscope"}});
  columns.put("site", {"x_in", "x_out"});
  const Columns::Row first = columns.at("cell", 0);
  first.put("placement", "pre");
  first.put("loss", {5.5, std::nan(""), 4.0});
  first.at("site", 1, "x_out").put("size", {1.0, 2.0, 3.0});
  first.at("site", 0).for_files().put("gains", 0.5);
  columns.at("cell", 1).put("placement", "peri");
  columns.at("cell", 1).put("loss", {5.0});
  columns.at("cell", 1).for_json().at("site", 0, "x_in").put("size", {7.0});
  columns.put("seconds", 1.5);
  columns.put("notes", {"a", "b"});

  const Json json = columns.json();
  CHECK(json["cells"].dump() ==
        R"([{"placement":"pre","loss":[5.5,null,4.0],"sites":{"x_out":{"size":[1.0,2.0,3.0]}}},)"
        R"({"placement":"peri","loss":[5.0],"sites":{"x_in":{"size":[7.0]}}}])");
  CHECK(json["seconds"] == 1.5);
  CHECK(json["notes"].size() == 2);
  CHECK(json["provenance"].dump() == R"({"program":"periscope","result":"training","result_version":3})");

  const testing::TemporaryFolder folder;
  const std::string path = folder.path("training.nc");
  write_netcdf(path, columns.dataset());
  const dataset::Dataset data = read_netcdf(path);
  CHECK(
      (data.dimensions == std::vector<dataset::Dimension>{{"cell", 2, false}, {"step", 3, true}, {"site", 2, false}}));
  CHECK((*dataset::find(data.facts, "result_version") == dataset::Fact(std::int64_t{3})));
  CHECK((*dataset::find(data.facts, "seconds") == dataset::Fact(1.5)));
  CHECK(data.find("notes") == nullptr);
  CHECK(units_in(data, "loss") == "nat");
  CHECK(data.find("loss")->meaning == "mean loss");
  const auto& loss = std::get<std::vector<double>>(data.find("loss")->values);
  REQUIRE(loss.size() == 6);
  CHECK(loss[2] == 4.0);
  CHECK(loss[3] == 5.0);
  CHECK(std::isnan(loss[4]));
  const auto& size = std::get<std::vector<double>>(data.find("size")->values);
  REQUIRE(size.size() == 12);
  CHECK(size[5] == 3.0);  // cell 0, x_out, step 2
  CHECK(std::isnan(size[6]));
  CHECK(std::get<std::vector<double>>(data.find("gains")->values)[0] == 0.5);
}

TEST_CASE("several open dimensions: a flat row is nested in JSON") {
  const Schema schema("table", 1, {{"a", "1", "a"}, {"b", "1", "b"}}, {{"m", "a b", "1", "m", "m"}});
  Columns columns(schema, Json::object());
  columns.count("a", 2);
  columns.count("b", 3, 1);
  columns.put("m", {1, 2, 3, 4, 5, std::nan("")});
  CHECK(columns.json()["m"].dump() == "[[1,2,3],[4,5,null]]");
  CHECK(std::get<std::vector<double>>(columns.dataset().find("b")->values) == std::vector<double>{1.0, 2.0, 3.0});
  columns.put("m", {1, 2, 3, 4});
  CHECK_THROWS_WITH_AS(static_cast<void>(columns.json()), "column m: 4 values where its dimensions have 6",
                       std::logic_error);
}

TEST_CASE("what is not declared is refused, and so is a bad declaration") {
  const Schema schema = training();
  Columns columns(schema, Json::object());
  CHECK_THROWS_AS(columns.put("los", 1.0), std::logic_error);
  columns.put("site", {"x_in"});
  columns.at("cell", 0).put("gains", {1.0, 2.0});
  CHECK_THROWS_AS(static_cast<void>(columns.dataset()), std::logic_error);
  const auto declare = [](ColumnSpec column) { return Schema("k", 1, {{"d", "1", "d"}}, {std::move(column)}); };
  CHECK_THROWS_AS(declare({"c", "e", "1", "unknown dimension", "c"}), std::logic_error);
  CHECK_THROWS_AS(declare({"c", "d", "1", "", "no meaning"}), std::logic_error);
  CHECK_THROWS_AS(declare({"c", "d", "1", "no path in JSON and no reason"}), std::logic_error);
  CHECK_THROWS_AS(declare({"d", "d", "1", "twice", "c"}), std::logic_error);
}

TEST_CASE("every result has a schema whose units are known ones") {
  std::set<std::string> kinds;
  const std::set<std::string> known{"", "1", "dB", "nat", "nat2", "s"};
  for (const Schema* schema : result_schemas()) {
    CHECK(kinds.insert(schema->kind()).second);
    for (const ColumnSpec& c : schema->columns()) {
      CAPTURE(c.name);
      CHECK(known.contains(c.units));
      const bool logarithm = c.in_files && !c.units.empty() && (c.name.starts_with("log_") || c.name.ends_with("loss"));
      // log_ratio of `verify` is decimal, and z is in standard errors.
      if (logarithm && schema->kind() != "verify" && !c.name.ends_with("_z")) CHECK(c.units == "nat");
    }
  }
}

TEST_CASE("a table's columns are as wide as their widest cell; colours and UTF-8 do not count as more") {
  TextTable table({"name", ">value", ""});
  table.add({"E[x²]", "1", "\x1b[32mgood\x1b[0m"});
  table.add({"a", "-12.5"});
  table.add_note("b", "refused: words that are as long as they like");
  CHECK(table.text() ==
        "name   value\nE[x²]      1  \x1b[32mgood\x1b[0m\na      -12.5\nb      refused: words that are as long as they "
        "like\n");
}

}  // namespace periscope
