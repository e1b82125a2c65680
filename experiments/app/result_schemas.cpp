#include <fmt/format.h>

#include "experiments/app/list.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/core/training/train.h"
#include "experiments/studies/certify/certify.h"
#include "experiments/studies/certify/soundness/soundness.h"
#include "experiments/studies/formats/formats.h"
#include "experiments/studies/gradients/attenuation.h"
#include "experiments/studies/gradients/crossover.h"
#include "experiments/studies/gradients/depth.h"
#include "experiments/studies/gradients/identity_path.h"
#include "experiments/studies/gradients/score_path.h"
#include "experiments/studies/power/power.h"
#include "experiments/studies/probe/probe.h"
#include "experiments/studies/propagate/propagate.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "experiments/studies/verify/report.h"
#include "experiments/studies/widths/converge.h"
#include "experiments/studies/widths/ladder_report.h"

namespace periscope {

std::vector<const Schema*> result_schemas() {
  return {&propagate::schema(),
          &converge::schema(),
          &ladder::schema(),
          &formats::schema(),
          &power::schema(),
          &gradients::depth_schema(),
          &gradients::attenuation_schema(),
          &gradients::identity_path_schema(),
          &gradients::score_path_schema(),
          &gradients::crossover_schema(),
          &verify::schema(),
          &probe::schema(),
          &certify::schema(),
          &soundness::schema(),
          &train::schema(),
          &reproduce::schema()};
}

std::string columns_text() {
  std::string text;
  for (const Schema* schema : result_schemas()) {
    text += fmt::format("{}Result {}, version {}\n", text.empty() ? "" : "\n", schema->kind(), schema->version());
    TextTable table({"column in files", "dimensions", "units", "path in JSON", "meaning"});
    for (const ColumnSpec& c : schema->columns()) {
      const std::string on = c.dimensions.empty() ? "(attribute)" : c.dimensions;
      table.add({c.in_files ? c.name : "-", c.in_files ? on : "", c.units.empty() ? "words" : c.units,
                 c.json.empty() ? "-" : c.json,
                 c.only.empty() ? c.meaning : fmt::format("{} ({})", c.meaning, c.only)});
    }
    text += table.text(2);
  }
  return text;
}

nlohmann::ordered_json columns_json() {
  nlohmann::ordered_json results = nlohmann::ordered_json::object();
  for (const Schema* schema : result_schemas()) {
    nlohmann::ordered_json columns = nlohmann::ordered_json::array();
    for (const ColumnSpec& c : schema->columns()) {
      nlohmann::ordered_json column{
          {"name", c.name},   {"in_files", c.in_files}, {"dimensions", words_of(c.dimensions)},
          {"units", c.units}, {"meaning", c.meaning},   {"json", c.json}};
      if (!c.only.empty()) column["why_not_both"] = c.only;
      columns.push_back(std::move(column));
    }
    results[schema->kind()] = {{"version", schema->version()}, {"columns", std::move(columns)}};
  }
  return {{"results", std::move(results)}};
}

}  // namespace periscope
