#include "experiments/soundness/report.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "sim/model/parameters.h"

namespace periscope {
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

std::string soundness_table(const SoundnessResult& r, bool colour) {
  std::string table = fmt::format("{:<6} {:<9} {:>11} {:>10} {:>11} {:>9} {:>10}   tightness: median / largest of\n",
                                  "", "format", "checkpoints", "stream ok", "all ok", "runs", "violated");
  for (const ArithmeticSummary& s : r.summaries) {
    table +=
        fmt::format("{:<6} {:<9} {:>11} {:>10} {:>11} {:>9} {:>10}  ", kind_name(s.arithmetic),
                    s.arithmetic.stored.name, s.checkpoints, s.stream_certified, s.all_certified, s.runs, s.violated);
    for (std::size_t k = 0; k < class_count; ++k) {
      const Tightness& t = s.tightness[k];
      table += t.checkpoints == 0
                   ? fmt::format(" {} -", theory::signal_class_names[k])
                   : fmt::format(" {} {:.2f}/{:.3f}", theory::signal_class_names[k], t.median, t.largest);
    }
    table += '\n';
  }
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

nlohmann::ordered_json soundness_json(const SoundnessResult& r) {
  Json json{
      {"seed", r.config.seed},  {"scale", r.config.scale},      {"checkpoints", r.checkpoints}, {"runs", r.runs},
      {"violated", r.violated}, {"arithmetics", Json::array()}, {"violations", Json::array()},  {"seconds", r.seconds}};
  for (const ArithmeticSummary& s : r.summaries) {
    Json classes = Json::object();
    for (std::size_t k = 0; k < class_count; ++k) {
      const Tightness& t = s.tightness[k];
      if (t.checkpoints == 0) continue;
      classes[std::string(theory::signal_class_names[k])] = {
          {"checkpoints", t.checkpoints}, {"median", t.median}, {"largest", t.largest}, {"tightest", t.tightest}};
    }
    json["arithmetics"].push_back({{"arithmetic", kind_name(s.arithmetic)},
                                   {"format", s.arithmetic.stored.name},
                                   {"checkpoints", s.checkpoints},
                                   {"stream_certified", s.stream_certified},
                                   {"all_certified", s.all_certified},
                                   {"runs", s.runs},
                                   {"violated", s.violated},
                                   {"tightness", std::move(classes)}});
  }
  for (const SpecimenResult& v : r.violations) json["violations"].push_back(violation_json(v));
  return json;
}

NetcdfDataset soundness_dataset(const SoundnessResult& r, const nlohmann::ordered_json& provenance) {
  NetcdfDataset data;
  data.attributes = provenance;
  std::vector<std::string> arithmetics, formats, classes;
  std::vector<double> checkpoints, stream, all, runs, violated, median, largest;
  for (const std::string_view name : theory::signal_class_names) classes.emplace_back(name);
  for (const ArithmeticSummary& s : r.summaries) {
    arithmetics.emplace_back(kind_name(s.arithmetic));
    formats.emplace_back(s.arithmetic.stored.name);
    checkpoints.push_back(s.checkpoints);
    stream.push_back(s.stream_certified);
    all.push_back(s.all_certified);
    runs.push_back(static_cast<double>(s.runs));
    violated.push_back(s.violated);
    for (const Tightness& t : s.tightness) {
      median.push_back(t.checkpoints > 0 ? t.median : std::nan(""));
      largest.push_back(t.checkpoints > 0 ? t.largest : std::nan(""));
    }
  }
  data.dimensions = {{"arithmetic", r.summaries.size()}, {"class", class_count}};
  const std::vector<std::string> each{"arithmetic"};
  const std::vector<std::string> both{"arithmetic", "class"};
  data.variables = {{"arithmetic", each, arithmetics, "", "arithmetic of the certificates and of the runs"},
                    {"format", each, formats, "", "number format of what is stored"},
                    {"class", {"class"}, classes, "", "class of signals"},
                    {"checkpoints", each, checkpoints, "1", "checkpoints examined"},
                    {"stream_certified", each, stream, "1", "checkpoints whose residual stream is certified"},
                    {"all_certified", each, all, "1", "checkpoints of which every signal is certified"},
                    {"runs", each, runs, "1", "emulated runs"},
                    {"violated", each, violated, "1", "checkpoints with a run that passed a certified number"},
                    {"tightness_median", both, median, "1", "largest value reached over largest bound: median"},
                    {"tightness_largest", both, largest, "1", "largest value reached over largest bound: largest"}};
  return data;
}

}  // namespace periscope
