#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/core/config/json_text.h"
#include "experiments/core/dataset/table.h"
#include "experiments/studies/certify/soundness/soundness.h"
#include "sim/model/parameters.h"

namespace periscope::soundness {
namespace {

using dataset::Builder;
using dataset::Place;
using dataset::Table;
using dataset::Type;
using Json = nlohmann::ordered_json;

std::string_view arithmetic_name(const RunArithmetic& a) { return arithmetic_names[static_cast<std::size_t>(a.kind)]; }

/// The classes of which some checkpoint had a bound.
std::vector<std::pair<std::size_t, Tightness>> classes_of(const ArithmeticSummary& s) {
  std::vector<std::pair<std::size_t, Tightness>> all;
  for (std::size_t k = 0; k < class_count; ++k) {
    if (s.tightness[k].checkpoints > 0) all.emplace_back(k, s.tightness[k]);
  }
  return all;
}

Table<Tightness> tightness_table() {
  using T = Tightness;
  const std::string on = "arithmetic class";
  const Place at = (Place("arithmetics").each({"arithmetic"}) / "tightness").by("class");
  Table<T> table;
  table
      .column({"tightness_checkpoints", on, "1", "checkpoints with a bound of the class", at / "checkpoints"},
              [](const T& t) { return t.checkpoints; })
      .column({"tightness_median", on, "1", "largest value reached over largest bound: median", at / "median"},
              [](const T& t) { return t.median; })
      .column({"tightness_largest", on, "1", "largest value reached over largest bound: largest", at / "largest"},
              [](const T& t) { return t.largest; })
      .column({"tightness_tightest", on, "1", "checkpoint where it is largest", at / "tightest"},
              [](const T& t) { return t.tightest; });
  return table;
}

Table<ArithmeticSummary> summary_table() {
  using S = ArithmeticSummary;
  const std::string on = "arithmetic";
  const Place at = Place("arithmetics").each({on});
  Table<S> table;
  table
      .column({"format", on, "", "number format of what is stored", at / "format"},
              [](const S& s) { return s.arithmetic.stored.name; })
      .column({"checkpoints", on, "1", "checkpoints examined", at / "checkpoints"},
              [](const S& s) { return s.checkpoints; })
      .column({"stream_certified", on, "1", "checkpoints whose residual stream is certified", at / "stream_certified"},
              [](const S& s) { return s.stream_certified; })
      .column({"all_certified", on, "1", "checkpoints of which every signal is certified", at / "all_certified"},
              [](const S& s) { return s.all_certified; })
      .column({"runs", on, "1", "emulated runs", at / "runs"}, [](const S& s) { return s.runs; })
      .column({"violated", on, "1", "checkpoints with a run that passed a certified number", at / "violated"},
              [](const S& s) { return s.violated; })
      .rows_at("class", tightness_table(), classes_of);
  return table;
}

Table<Breach> breach_table() {
  using B = Breach;
  const std::string on = "violation";
  const Place at = Place("violations").each({on}) / "worst";
  Table<B> table;
  table
      .column({"violation_what", on, "", "what passed its bound by the largest factor", at / "what"},
              [](const B& b) { return b.what; })
      .column({"violation_bound", on, "1", "its bound", at / "bound"}, [](const B& b) { return b.bound; })
      .column({"violation_reached", on, "1", "what the run reached", at / "reached"},
              [](const B& b) { return b.reached; })
      .column({"violation_run", on, "", "how the run computed", at / "run"},
              [](const B& b) { return emulation_text(b.emulation); })
      .column({"violation_input", on, "", "what the run read", at / "input"}, [](const B& b) { return b.input; });
  return table;
}

Json breaches_json(const SpecimenResult& v) {
  constexpr std::size_t most_listed = 5;
  Json all = Json::array();
  for (std::size_t i = 0; i < std::min(most_listed, v.breaches.size()); ++i) {
    const Breach& b = v.breaches[i];
    all.push_back({{"what", b.what},
                   {"bound", b.bound},
                   {"reached", std::isfinite(b.reached) ? Json(b.reached) : Json("not finite")},
                   {"run", emulation_text(b.emulation)},
                   {"input", b.input}});
  }
  return all;
}

Json weights_json(const Specimen& s) {
  Json json = Json::object();
  for (const auto& [id, n] : s.numbers) json[name_of(id)] = {{"shape", {n.rows, n.cols}}, {"values", n.values}};
  return json;
}

Table<SpecimenResult> violation_table() {
  using V = SpecimenResult;
  const std::string on = "violation";
  const Place at = Place("violations").each({on});
  Table<V> table;
  table
      .column({"violation_index", on, "1", "the checkpoint's number, for --only", at / "index"},
              [](const V& v) { return v.specimen.index; })
      .column({"violation_seed", on, "1", "of the checkpoints", at / "seed"},
              [](const V& v) { return v.specimen.seed; })
      .column({"violation_family", on, "", "family of its shape and options", at / "family"},
              [](const V& v) { return v.specimen.family; })
      .column({"violation_placement", on, "", "normalization placement (T1)", at / "placement", true},
              [](const V& v) { return v.specimen.model.placement.name; })
      .column({"violation_layers", on, "1", "L", at / "layers"}, [](const V& v) { return v.specimen.model.layers; })
      .column({"violation_width", on, "1", "D", at / "width"}, [](const V& v) { return v.specimen.model.width; })
      .column({"violation_parameters", on, "1", "numbers in its weights", at / "parameters"},
              [](const V& v) { return v.specimen.parameters(); })
      .column({"violation_arithmetic", on, "", "arithmetic of its certificate and of its runs", at / "arithmetic"},
              [](const V& v) { return arithmetic_name(v.arithmetic); })
      .column({"violation_format", on, "", "number format of what is stored", at / "format"},
              [](const V& v) { return v.arithmetic.stored.name; })
      .column({"violation_structure", on, "", "what is special in its weights", at / "structure"},
              [](const V& v) { return fmt::format("{}", fmt::join(v.specimen.structure, "; ")); })
      .column({"violation_knob", on, "", "the group of parameters that was scaled", at / "knob"},
              [](const V& v) { return knob_names[static_cast<std::size_t>(v.knob)]; })
      .column({"violation_factor", on, "1", "by what", at / "factor"}, [](const V& v) { return v.factor; })
      .part(breach_table(), [](const V& v) { return &v.worst(); })
      .column({"violation_breaches", on, "", "what passed its bound in the first five runs of those: a JSON text",
               at / "breaches", true},
              [](const V& v) { return config::json_text(breaches_json(v)); })
      .column({"violation_weights", on, "", "its weights by name, with shapes: a JSON text", at / "weights", true},
              [](const V& v) { return config::json_text(weights_json(v.specimen)); });
  return table;
}

const Table<SoundnessResult>& result_table() {
  static const Table<SoundnessResult> all = [] {
    using R = SoundnessResult;
    Table<R> table;
    table.column({"seed", "", "1", "of the checkpoints"}, [](const R& r) { return r.config.seed; })
        .column({"scale", "", "1", "on every bound"}, [](const R& r) { return r.config.scale; })
        .column({"total_checkpoints", "", "1", "checkpoints examined", Place("checkpoints")},
                [](const R& r) { return r.checkpoints; })
        .column({"total_runs", "", "1", "emulated runs", Place("runs")}, [](const R& r) { return r.runs; })
        .column({"total_violated", "", "1", "checkpoints with a run that passed a certified number", Place("violated")},
                [](const R& r) { return r.violated; })
        .rows(
            "arithmetic", summary_table(), [](const R& r) -> const auto& { return r.summaries; })
        .rows(
            "violation", violation_table(), [](const R& r) -> const auto& { return r.violations; });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema("soundness", 2,
                                      {{"arithmetic", Type::text, "", "arithmetic of the certificates and of the runs"},
                                       {"class", Type::text, "", "class of signals"},
                                       {"violation"}},
                                      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const SoundnessResult& result) {
  Builder builder(schema());
  for (std::size_t i = 0; i < result.summaries.size(); ++i) {
    builder.at("arithmetic", i).put("arithmetic", arithmetic_name(result.summaries[i].arithmetic));
  }
  builder.put("class", theory::signal_class_names);
  result_table().put(result, builder.row());
  return builder.finish();
}

}  // namespace periscope::soundness
