#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "experiments/app/tools/list.h"
#include "experiments/engine/result/json_image.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/result/text_table.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

using dataset::Builder;
using dataset::Place;
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

const Place at_cell = Place("cells").each({"cell"});

dataset::Table<Site> site_table() {
  dataset::Table<Site> table;
  const Place at = (at_cell / "sites").by("site");
  table.column({"size", "cell site step", "1", "size at a site", at / "size"}, [](const Site& s) { return s.size; })
      .column({"stable", "cell site", "1", "1: it did not grow", at / "stable"},
              [](const Site& s) { return s.stable; });
  return table;
}

dataset::Table<Cell> cell_table() {
  dataset::Table<Cell> table;
  table
      .column({"placement", "cell", "", "normalization placement", at_cell / "placement"},
              [](const Cell& c) { return c.placement; })
      .column({"loss", "cell step", "nat", "mean loss", at_cell / "loss"}, [](const Cell& c) { return c.loss; })
      .column({"diverged_at", "cell", "1", "first step that is lost", at_cell / "diverged_at"},
              [](const Cell& c) { return c.diverged_at; })
      .rows_at("site", site_table(), [](const Cell& c) { return c.sites; });
  return table;
}

/// Runs of training, whose number of steps is not known in advance.
Schema training() {
  std::vector<dataset::ColumnSpec> columns = cell_table().specs();
  columns.push_back({"seconds_allowed", "", Type::real, "s", "that it may take", {}});
  return {
      "training",
      3,
      {{"cell"}, {"step", Type::integer, "1", "steps taken", true}, {"site", Type::text, "", "place in the dataflow"}},
      std::move(columns),
      {{at_cell / "unit", "nat"}}};
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

TEST_CASE("one declaration makes JSON: rows by place, labels as keys, coordinates of elements, nothing for nothing") {
  const Schema schema = training();
  const Json json = dataset::json_image(schema, two_runs(schema));
  CHECK(json.dump() == R"({"cells":[{"placement":"pre","loss":[5.5,null,4.0],"diverged_at":null,)"
                       R"("sites":{"x_out":{"size":[1.0,2.0,3.0],"stable":true}},"unit":"nat"},)"
                       R"({"placement":"peri","loss":[5.0,null,null],"diverged_at":2,)"
                       R"("sites":{"x_in":{"size":[7.0,null,null],"stable":false}},"unit":"nat"}],)"
                       R"("seconds_allowed":1.5,"coordinates":{"step":[1,2,3]}})");
}

TEST_CASE("one declaration makes the columns: types, what is missing, a free dimension, one value as a scalar") {
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

TEST_CASE("several open dimensions: a flat row is nested in JSON") {
  const Schema schema("table", 1, {{"a", Type::integer, "1", "a"}, {"b", Type::integer, "1", "b"}},
                      {{"m", "a b", Type::real, "1", "m", Place("m")}});
  Builder builder(schema);
  builder.count("a", 2);
  builder.count("b", 3, 1);
  builder.put("m", std::vector{1.5, 2.0, 3.0, 4.0, 5.0, std::nan("")});
  CHECK(dataset::json_image(schema, builder.finish())["m"].dump() == "[[1.5,2.0,3.0],[4.0,5.0,null]]");
  builder.put("m", std::vector{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0});
  CHECK_THROWS_WITH_AS(static_cast<void>(builder.finish()), "column m: 7 values are too many", std::logic_error);
}

TEST_CASE("what is not declared is refused, and so are another type and a bad declaration") {
  const Schema schema = training();
  Builder builder(schema);
  CHECK_THROWS_AS(builder.put("los", 1.0), std::logic_error);
  CHECK_THROWS_AS(builder.put("placement", 1.0), std::logic_error);
  CHECK_THROWS_AS(builder.put("diverged_at", 1.5), std::logic_error);
  CHECK_THROWS_AS(builder.put("stable", 1), std::logic_error);
  CHECK_NOTHROW(builder.put("seconds_allowed", 2));  // a whole number is a real one
  CHECK_THROWS_AS(static_cast<void>(builder.at("cel", 0)), std::logic_error);
  const auto declare = [](dataset::ColumnSpec column) {
    return Schema("k", 1, {{"d", Type::integer, "1", "d"}}, {std::move(column)});
  };
  CHECK_THROWS_AS(declare({"c", "e", Type::real, "1", "unknown dimension", {}}), std::logic_error);
  CHECK_THROWS_AS(declare({"c", "d", Type::real, "1", "", {}}), std::logic_error);
  CHECK_THROWS_AS(declare({"c", "d", Type::real, "", "no units", {}}), std::logic_error);
  CHECK_THROWS_AS(declare({"c", "d", Type::text, "1", "units of text", {}}), std::logic_error);
  CHECK_THROWS_AS(declare({"d", "d", Type::integer, "1", "twice", {}}), std::logic_error);
  CHECK_THROWS_AS(declare({"c", "", Type::real, "1", "in a list that it is not on", Place("l").each({"d"})}),
                  std::logic_error);
}

TEST_CASE("every result has a schema whose units are known ones, and no two columns are at one place in JSON") {
  std::set<std::string> kinds;
  const std::set<std::string> known{"", "1", "s"};  // of UDUNITS
  for (const Schema* schema : app::result_schemas()) {
    CHECK(kinds.insert(schema->kind()).second);
    std::set<std::string> places;
    for (const dataset::ColumnSpec& c : schema->columns()) {
      CAPTURE(c.name);
      CHECK(known.contains(c.units));
      CHECK_MESSAGE(places.insert(dataset::place_text(c)).second, dataset::place_text(c));
      const bool logarithm = !c.units.empty() && (c.name.starts_with("log_") || c.name.ends_with("loss"));
      // log_ratio of `verify` is decimal, and z is in standard errors.
      if (logarithm && schema->kind() != "verify" && !c.name.ends_with("_z")) CHECK(c.meaning.ends_with(", in nat"));
      if (c.type == Type::real && c.name.find("sqnr") != std::string::npos) CHECK(c.meaning.ends_with(", in dB"));
      // A number's prediction and errors have its units.
      for (const char* suffix : {"_measured", "_predicted", "_stderr"}) {
        if (!c.name.ends_with(suffix)) continue;
        const std::string of = c.name.substr(0, c.name.size() - std::string_view(suffix).size());
        for (const dataset::ColumnSpec& other : schema->columns()) {
          const bool is_pair = other.name == of || other.name == of + "_measured" || other.name == of + "_predicted";
          if (is_pair && other.type != Type::text) CHECK_MESSAGE(other.units == c.units, other.name);
        }
      }
    }
    // Nor is one below another: a key is a value, or has keys.
    for (const std::string& place : places) {
      const auto below = [&](const std::string& other) {
        return other.starts_with(place + ".") || other.starts_with(place + "[");
      };
      CHECK_MESSAGE(std::ranges::none_of(places, below), schema->kind(), ": ", place);
    }
  }
}

TEST_CASE("a dimension that nothing but its coordinate is on is left out") {
  const Schema schema = training();
  Builder builder(schema);
  builder.put("site", std::vector<std::string>{"x_in", "x_out"});
  builder.count("step", 3, 1);
  builder.at("cell", 0).put("loss", std::vector<double>{3.0, 2.0, 1.0});
  const dataset::Dataset data = builder.finish();
  using Dimensions = std::vector<dataset::Dimension>;
  CHECK((data.dimensions == Dimensions{{"cell", 1, false}, {"step", 3, true}}));
  CHECK(data.find("site") == nullptr);
  CHECK(data.find("step") != nullptr);
}

TEST_CASE("a table's columns are as wide as their widest cell; colours and UTF-8 do not count as more") {
  dataset::TextTable table({"name", ">value", ""});
  table.add({"E[x²]", "1", "\x1b[32mgood\x1b[0m"});
  table.add({"a", "-12.5"});
  table.add_note("b", "refused: words that are as long as they like");
  CHECK(table.text() ==
        "name   value\nE[x²]      1  \x1b[32mgood\x1b[0m\na      -12.5\nb      refused: words that are as long as they "
        "like\n");
  CHECK(dataset::without_colours(table.text()).find("good") != std::string::npos);
  CHECK(dataset::without_colours(table.text()).find('\x1b') == std::string::npos);
}

TEST_CASE("a table that would be too wide goes on in the next line, and breaks no number from its error") {
  dataset::TextTable table({"placement", ">a long title", "why"});
  table.add({"peri", "1.25 ± 0.5", "\x1b[33mone two three\x1b[0m"});
  CHECK(table.text(2, 30) ==
        "  placement      a long  why\n                  title\n"
        "  peri       1.25 ± 0.5  \x1b[33mone\x1b[0m\n"
        "                         \x1b[33mtwo\x1b[0m\n"
        "                         \x1b[33mthree\x1b[0m\n");
  CHECK(dataset::broken("1.25 ± 0.5 and more", 10) == std::vector<std::string>{"1.25 ± 0.5", "and more"});
  CHECK(dataset::broken("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  CHECK(dataset::broken("\x1b[33mone two\x1b[0m", 4) ==
        std::vector<std::string>{"\x1b[33mone\x1b[0m", "\x1b[33mtwo\x1b[0m"});
  const std::string line = "  " + std::string(60, 'a') + " " + std::string(60, 'b');
  CHECK(dataset::within_table_width(line + "\nshort\n") ==
        "  " + std::string(60, 'a') + "\n    " + std::string(60, 'b') + "\nshort\n");
}

TEST_CASE("columns that have no room follow below, beside the first one") {
  dataset::TextTable table({"placement", ">measured", ">predicted", "claim"});
  table.add({"peri", "0.123 ± 0.004", "0.125 ± 0.001", "G8"});
  table.add_note("pre", "refused");
  CHECK(table.text(0, 30) ==
        "placement       measured\n"
        "peri       0.123 ± 0.004\n"
        "pre        refused\n"
        "\n"
        "placement      predicted\n"
        "peri       0.125 ± 0.001\n"
        "\n"
        "placement  claim\n"
        "peri       G8\n");
}

TEST_CASE("a value without an error, or without a value, is no \"nan ± nan\", and one beyond f64 is no \"inf\"") {
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
