#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "experiments/engine/result/serialize.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/studies.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

using dataset::Builder;
using dataset::Schema;
using dataset::Type;
using Json = nlohmann::ordered_json;

struct Site {
  std::vector<double> size;
  bool stable;
};
struct Cell {
  std::string placement;
  std::vector<double> loss;
  std::vector<std::pair<std::size_t, Site>> sites;
  std::optional<int> diverged_at;
};

dataset::Table<Site> site_table() {
  dataset::Table<Site> table;
  table.column({"size", "cell site step", "1", "size at a site"}, [](const Site& s) { return s.size; })
      .column({"stable", "cell site", "1", "1 if the size did not grow"}, [](const Site& s) { return s.stable; });
  return table;
}

dataset::Table<Cell> cell_table() {
  dataset::Table<Cell> table;
  table.column({"placement", "cell", "", "normalization placement"}, [](const Cell& c) { return c.placement; })
      .column({"loss", "cell step", "nat", "mean loss"}, [](const Cell& c) { return c.loss; })
      .column({"diverged_at", "cell", "1", "first diverged step"}, [](const Cell& c) { return c.diverged_at; })
      .rows_at("site", site_table(), [](const Cell& c) { return c.sites; });
  return table;
}

/// A schema with an unlimited dimension, as for training runs.
Schema training() {
  std::vector<dataset::ColumnSpec> columns = cell_table().specs();
  columns.push_back({"seconds_allowed", "", "s", "time limit"});
  return {
      "training",
      3,
      {{"cell"}, {"step", Type::integer, "1", "steps taken", true}, {"site", Type::text, "", "place in the dataflow"}},
      std::move(columns)};
}

dataset::Dataset two_runs(const Schema& schema) {
  Builder builder(schema);
  builder.put("site", std::vector<std::string>{"x_in", "x_out"});
  builder.count("step", 3, 1);
  builder.put("seconds_allowed", 1.5);
  const dataset::Table<Cell> table = cell_table();
  table.put({"pre", {5.5, std::nan(""), 4.0}, {{1, {{1.0, 2.0, 3.0}, true}}}, std::nullopt}, builder.at("cell", 0));
  table.put({"peri", {5.0}, {{0, {{7.0}, false}}}, 2}, builder.at("cell", 1));
  return builder.finish();
}

}  // namespace

TEST_CASE("JSON has the form of xarray.Dataset.from_dict, strings for NaN and infinity, null if missing") {
  const Schema schema("k", 1, {{"a", Type::integer, "1", "position"}, {"b"}},
                      {{"x", "a b", "1", "real"},
                       {"n", "b", "1", "whole", Type::integer},
                       {"f", "b", "1", "flag", Type::boolean},
                       {"t", "", "", "text", Type::text}});
  Builder builder(schema);
  builder.count("a", 2, 7);
  const double infinity = std::numeric_limits<double>::infinity();
  builder.put("x", std::vector{1.5, std::nan(""), infinity, -infinity});
  builder.put("n", std::vector<std::optional<int>>{3, std::nullopt});
  builder.put("f", std::vector<std::optional<bool>>{std::nullopt, true});
  builder.put("t", "word");
  dataset::Dataset data = builder.finish();
  data.attributes = {{"config", {{"a", 1}}}, {"seeds", 4}};
  const std::string expected =
      R"({"attrs":{"config":"{\"a\":1}","seeds":4},"dims":{"a":2,"b":2},)"
      R"("coords":{"a":{"dims":["a"],"attrs":{"units":"1","long_name":"position"},"dtype":"int64","data":[7,8]}},)"
      R"("data_vars":{"x":{"dims":["a","b"],"attrs":{"units":"1","long_name":"real"},"dtype":"float64",)"
      R"("data":[[1.5,"NaN"],["Infinity","-Infinity"]]},)"
      R"("n":{"dims":["b"],"attrs":{"units":"1","long_name":"whole"},"dtype":"int64","data":[3,null]},)"
      R"("f":{"dims":["b"],"attrs":{"units":"1","long_name":"flag"},"dtype":"bool","data":[null,true]},)"
      R"("t":{"dims":[],"attrs":{"long_name":"text"},"dtype":"str","data":"word"}}})";
  CHECK(dataset::json_of(data).dump() == expected);
}

TEST_CASE("tables declare types, missing values, an unlimited dimension and scalars of the dataset") {
  const Schema schema = training();
  const dataset::Dataset data = two_runs(schema);
  using Dimensions = std::vector<dataset::Dimension>;
  CHECK((data.dimensions == Dimensions{{"cell", 2, false}, {"step", 3, true}, {"site", 2, false}}));
  CHECK(data.find("loss")->units == "1");
  CHECK(data.find("loss")->meaning == "mean loss, in nat");
  const auto& size = std::get<std::vector<double>>(data.find("size")->values);
  REQUIRE(size.size() == 12);
  CHECK(size[5] == 3.0);  // cell 0, x_out, step 3
  CHECK(std::isnan(size[0]));
  CHECK(std::get<std::vector<double>>(data.find("seconds_allowed")->values) == std::vector{1.5});
  CHECK(std::get<std::vector<std::int64_t>>(data.find("diverged_at")->values) ==
        std::vector<std::int64_t>{dataset::missing_integer, 2});
  CHECK(std::get<std::vector<std::uint8_t>>(data.find("stable")->values) ==
        std::vector<std::uint8_t>{dataset::missing_boolean, 1, 0, dataset::missing_boolean});
}

TEST_CASE("schemas reject undeclared columns and dimensions, and wrong types and lengths") {
  const Schema schema = training();
  Builder builder(schema);
  CHECK_THROWS_AS(builder.put("los", 1.0), std::logic_error);
  CHECK_THROWS_AS(builder.put("placement", 1.0), std::logic_error);
  CHECK_THROWS_AS(builder.put("diverged_at", 1.5), std::logic_error);
  CHECK_THROWS_AS(builder.put("stable", 1), std::logic_error);
  CHECK_NOTHROW(builder.put("seconds_allowed", 2));  // integers convert to real
  builder.put("step", std::vector{1});
  builder.at("cell", 0).put("loss", std::vector{1.0, 2.0});
  CHECK_THROWS_AS(static_cast<void>(builder.finish()), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(builder.at("cel", 0)), std::logic_error);
}

TEST_CASE("every kind of result has one schema, whose meanings state units that UDUNITS lacks") {
  std::map<std::string, const Schema*> by_kind;
  for (const study::Study& study : studies()) {
    const Schema* schema = study.schema;
    if (schema == nullptr) continue;
    CHECK(by_kind.emplace(schema->kind(), schema).first->second == schema);
    for (const dataset::ColumnSpec& c : schema->columns()) {
      CAPTURE(c.name);
      const bool logarithm = !c.units.empty() && (c.name.starts_with("log_") || c.name.ends_with("loss"));
      // log_ratio of `verify` is a decimal logarithm; statistics of a verdict are in standard errors.
      const bool is_of_verdict = c.name.ends_with("_z") || c.name.ends_with("_excess") || c.name.ends_with("_critical");
      if (logarithm && schema->kind() != "verify" && !is_of_verdict) CHECK(c.meaning.ends_with(", in nat"));
      if (c.type == Type::real && c.name.find("sqnr") != std::string::npos) CHECK(c.meaning.ends_with(", in dB"));
    }
  }
}

TEST_CASE("text tables: column width ignores colors and counts UTF-8 characters") {
  dataset::TextTable table({"name", ">value", ""});
  table.add({"E[x²]", "1", "\x1b[32mgood\x1b[0m"});
  table.add({"a", "-12.5"});
  table.add_note("b", "unsupported: a reason of any length");
  CHECK(table.text() ==
        "name   value\nE[x²]      1  \x1b[32mgood\x1b[0m\na      -12.5\nb      unsupported: a reason of any length\n");
  CHECK(dataset::without_colours(table.text()).find("good") != std::string::npos);
  CHECK(dataset::without_colours(table.text()).find('\x1b') == std::string::npos);
}

TEST_CASE("text tables: wide cells wrap, but not between a number and its error") {
  dataset::TextTable table({"placement", ">a long title", "why"});
  table.add({"peri", "1.25 ± 0.5", "one two \x1b[33mthree\x1b[0m"});
  CHECK(table.text(2, 30) ==
        "  placement      a long  why\n                  title\n"
        "  peri       1.25 ± 0.5  one\n"
        "                         two\n"
        "                         \x1b[33mthree\x1b[0m\n");
  CHECK(dataset::wrap_line("1.25 ± 0.5 and more", 10) == std::vector<std::string>{"1.25 ± 0.5", "and more"});
  CHECK(dataset::wrap_line("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  const std::string line = "  " + std::string(60, 'a') + " " + std::string(60, 'b');
  CHECK(dataset::wrap_to_table_width(line + "\nshort\n") ==
        "  " + std::string(60, 'a') + "\n    " + std::string(60, 'b') + "\nshort\n");
}

TEST_CASE("numbers in tables: NaN errors are omitted, NaN values are dashes, infinity is overflow") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(dataset::number(infinity) == "overflow");
  CHECK(dataset::number(-infinity) == "-overflow");
  CHECK(dataset::with_error(infinity, 0.1) == "overflow");
  const double nan = std::nan("");
  CHECK(dataset::with_error(8.7466, 0.12) == "8.747 ± 0.1");
  CHECK(dataset::with_error(8.7466, nan) == "8.747");
  CHECK(dataset::with_error(nan, nan) == "–");
}

}  // namespace periscope
