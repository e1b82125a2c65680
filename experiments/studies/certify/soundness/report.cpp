#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/certify/soundness/soundness.h"
#include "sim/model/parameters.h"

namespace periscope::soundness {
namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_name(const RunArithmetic& a) { return arithmetic_names[static_cast<std::size_t>(a.kind)]; }

std::string emulation_text(const Emulation& e) {
  std::string text = fmt::format("{} {}, sums {}", kind_name(e.arithmetic), e.arithmetic.stored.name,
                                 sum_order_names[static_cast<std::size_t>(e.order)]);
  text += fmt::format(", norms {}", norm_form_names[static_cast<std::size_t>(e.norm)]);
  if (e.fused) text += ", fused products";
  if (e.reciprocal) text += ", reciprocals";
  if (e.chains) text += ", scaled queries, GELU step by step";
  if (e.stored_scalars) text += ", factors in the stored format";
  return text;
}

std::string breach_text(const SoundnessResult& r, const SpecimenResult& v) {
  const Specimen& s = v.specimen;
  const ModelSpec& m = s.model;
  std::string text = fmt::format(
      "checkpoint {} (--seed {} --only {}): {}, {} parameters, layers {}, width {}, heads {}/{} of {}, MLP {} of {}, "
      "{} norm, eps {:g}, QK-norm {}\n",
      s.index, s.seed, s.index, s.family, s.parameters(), m.layers, m.width, m.heads, m.kv_heads, m.head_dim,
      mlp_kind_names[static_cast<std::size_t>(m.mlp)], m.mlp_width, norm_kind_names[static_cast<std::size_t>(m.norm)],
      m.norm_eps, qk_norm_names[static_cast<std::size_t>(m.qk_norm)]);
  text += fmt::format("  placement {}, {} x {:.6g}; {}\n", m.placement.name,
                      knob_names[static_cast<std::size_t>(v.knob)], v.factor, fmt::join(s.structure, "; "));
  const Breach* worst = &v.breaches.front();
  for (const Breach& b : v.breaches) {
    if (b.excess() > worst->excess()) worst = &b;
  }
  text += fmt::format("  {}: reached {:.9g}, bound{} {:.9g}\n  {}\n  {}\n", worst->what, worst->reached,
                      r.config.scale == 1.0 ? "" : fmt::format(" x {:g}", r.config.scale), worst->bound,
                      emulation_text(worst->emulation), worst->input);
  return text;
}

Json values_json(const Specimen& s) {
  Json json = Json::object();
  for (const auto& [id, n] : s.numbers) json[name_of(id)] = {{"shape", {n.rows, n.cols}}, {"values", n.values}};
  return json;
}

Json violation_json(const SpecimenResult& v) {
  Json breaches = Json::array();
  for (const Breach& b : v.breaches) {
    breaches.push_back({{"what", b.what},
                        {"bound", b.bound},
                        {"reached", std::isfinite(b.reached) ? Json(b.reached) : Json("not finite")},
                        {"run", emulation_text(b.emulation)},
                        {"input", b.input}});
    if (breaches.size() == 5) break;
  }
  const ModelSpec& m = v.specimen.model;
  return {{"index", v.specimen.index},
          {"seed", v.specimen.seed},
          {"family", v.specimen.family},
          {"placement", m.placement.name},
          {"layers", m.layers},
          {"width", m.width},
          {"parameters", v.specimen.parameters()},
          {"arithmetic", kind_name(v.arithmetic)},
          {"format", v.arithmetic.stored.name},
          {"structure", v.specimen.structure},
          {"knob", knob_names[static_cast<std::size_t>(v.knob)]},
          {"factor", v.factor},
          {"breaches", std::move(breaches)},
          {"weights", values_json(v.specimen)}};
}

}  // namespace

std::string table(const SoundnessResult& r, bool colour) {
  TextTable rows(
      {"", "format", ">checkpoints", ">stream ok", ">all ok", ">runs", ">violated", "tightness: median / largest of"});
  for (const ArithmeticSummary& s : r.summaries) {
    std::vector<std::string> classes;
    for (std::size_t k = 0; k < class_count; ++k) {
      const Tightness& t = s.tightness[k];
      classes.push_back(t.checkpoints == 0
                            ? fmt::format("{} -", theory::signal_class_names[k])
                            : fmt::format("{} {:.2f}/{:.3f}", theory::signal_class_names[k], t.median, t.largest));
    }
    rows.add({std::string(kind_name(s.arithmetic)), std::string(s.arithmetic.stored.name),
              fmt::to_string(s.checkpoints), fmt::to_string(s.stream_certified), fmt::to_string(s.all_certified),
              fmt::to_string(s.runs), fmt::to_string(s.violated), fmt::format("{}", fmt::join(classes, " "))});
  }
  std::string table = rows.text();
  table +=
      "stream ok, all ok: certified for the format, of the residual stream and of every signal; tightness: largest "
      "value that a run reached over the largest bound of the class.\n";
  for (const SpecimenResult& v : r.violations) table += fmt::format("\n{}", breach_text(r, v));
  const std::string verdict =
      r.violated == 0 ? fmt::format("no certified number was passed: {} checkpoints, {} runs", r.checkpoints, r.runs)
                      : fmt::format("{} of {} checkpoints passed a certified number", r.violated, r.checkpoints);
  const auto shade = r.violated == 0 ? fmt::terminal_color::green : fmt::terminal_color::red;
  table += colour ? fmt::format(fmt::fg(shade), "{}", verdict) : verdict;
  return table + fmt::format(" ({:.1f} s)\n", r.seconds);
}

const Schema& schema() {
  static const Schema schema = [] {
    const std::string on = "arithmetic";
    const std::string each = "arithmetics/[arithmetic]/";
    const std::string tightness = each + "tightness/{class}/";
    return Schema(
        "soundness", 1,
        {{"arithmetic", "", "arithmetic of the certificates and of the runs", each + "arithmetic"},
         {"class", "", "class of signals"}},
        {{"seed", "", "1", "of the checkpoints", "seed"},
         {"scale", "", "1", "on every bound", "scale"},
         {"total_checkpoints", "", "1", "checkpoints examined", "checkpoints"},
         {"total_runs", "", "1", "emulated runs", "runs"},
         {"total_violated", "", "1", "checkpoints with a run that passed a certified number", "violated"},
         json_only("arithmetics", "arithmetics", "every arithmetic", "files have the dimension arithmetic"),
         json_only("violations", "violations", "what passed a certified number, with its weights", "no columns"),
         {"seconds", "", "s", "that it took", "seconds"},
         {"format", on, "", "number format of what is stored", each + "format"},
         {"checkpoints", on, "1", "checkpoints examined", each + "checkpoints"},
         {"stream_certified", on, "1", "checkpoints whose residual stream is certified", each + "stream_certified"},
         {"all_certified", on, "1", "checkpoints of which every signal is certified", each + "all_certified"},
         {"runs", on, "1", "emulated runs", each + "runs"},
         {"violated", on, "1", "checkpoints with a run that passed a certified number", each + "violated"},
         json_only("tightness", each + "tightness", "of every class", "files have the dimension class"),
         {"tightness_checkpoints", on + " class", "1", "checkpoints with a bound of the class",
          tightness + "checkpoints"},
         {"tightness_median", on + " class", "1", "largest value reached over largest bound: median",
          tightness + "median"},
         {"tightness_largest", on + " class", "1", "largest value reached over largest bound: largest",
          tightness + "largest"},
         {"tightness_tightest", on + " class", "1", "checkpoint where it is largest", tightness + "tightest"}});
  }();
  return schema;
}

Columns columns(const SoundnessResult& r, const nlohmann::ordered_json& provenance) {
  Columns columns(schema(), provenance);
  columns.put("class", theory::signal_class_names);
  columns.put("seed", r.config.seed);
  columns.put("scale", r.config.scale);
  columns.put("total_checkpoints", r.checkpoints);
  columns.put("total_runs", r.runs);
  columns.put("total_violated", r.violated);
  columns.put("arithmetics", Json::array());
  Json violations = Json::array();
  for (const SpecimenResult& v : r.violations) violations.push_back(violation_json(v));
  columns.put("violations", std::move(violations));
  columns.put("seconds", r.seconds);
  for (std::size_t i = 0; i < r.summaries.size(); ++i) {
    const ArithmeticSummary& s = r.summaries[i];
    const Columns::Row row = columns.at("arithmetic", i);
    row.put("arithmetic", kind_name(s.arithmetic));
    row.put("format", s.arithmetic.stored.name);
    row.put("checkpoints", s.checkpoints);
    row.put("stream_certified", s.stream_certified);
    row.put("all_certified", s.all_certified);
    row.put("runs", s.runs);
    row.put("violated", s.violated);
    row.put("tightness", Json::object());
    for (std::size_t k = 0; k < class_count; ++k) {
      const Tightness& t = s.tightness[k];
      if (t.checkpoints == 0) continue;
      const Columns::Row of_class = row.at("class", k, theory::signal_class_names[k]);
      of_class.put("tightness_checkpoints", t.checkpoints);
      of_class.put("tightness_median", t.median);
      of_class.put("tightness_largest", t.largest);
      of_class.put("tightness_tightest", t.tightest);
    }
  }
  return columns;
}

}  // namespace periscope::soundness
