#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "sim/model/parameters.h"
#include "tests/soundness/search.h"

namespace periscope::soundness {
namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_name(const RunArithmetic& a) { return arithmetic_names[static_cast<std::size_t>(a.kind)]; }

/// "mixed fp16, sums sequential, norms …".
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
  const Breach& worst = v.worst();
  text += fmt::format("  {}: reached {:.9g}, bound{} {:.9g}\n  {}\n  {}\n", worst.what, worst.reached,
                      r.config.scale == 1.0 ? "" : fmt::format(" x {:g}", r.config.scale), worst.bound,
                      emulation_text(worst.emulation), worst.input);
  return text;
}

/// JSON has no infinity and no NaN.
Json number(double v) { return std::isfinite(v) ? Json(v) : Json("not finite"); }

Json breach_json(const Breach& b) {
  return {{"what", b.what},
          {"bound", number(b.bound)},
          {"reached", number(b.reached)},
          {"run", emulation_text(b.emulation)},
          {"input", b.input}};
}

Json violation_json(const SpecimenResult& v) {
  constexpr std::size_t most_listed = 5;
  const Specimen& s = v.specimen;
  Json breaches = Json::array();
  for (std::size_t i = 0; i < std::min(most_listed, v.breaches.size()); ++i) {
    breaches.push_back(breach_json(v.breaches[i]));
  }
  Json weights = Json::object();
  for (const auto& [id, n] : s.numbers) weights[name_of(id)] = {{"shape", {n.rows, n.cols}}, {"values", n.values}};
  return {{"index", s.index},
          {"seed", s.seed},
          {"family", s.family},
          {"placement", s.model.placement.name},
          {"layers", s.model.layers},
          {"width", s.model.width},
          {"parameters", s.parameters()},
          {"arithmetic", kind_name(v.arithmetic)},
          {"format", v.arithmetic.stored.name},
          {"structure", fmt::format("{}", fmt::join(s.structure, "; "))},
          {"knob", knob_names[static_cast<std::size_t>(v.knob)]},
          {"factor", v.factor},
          {"worst", breach_json(v.worst())},
          {"breaches", breaches},
          {"weights", weights}};
}

}  // namespace

nlohmann::ordered_json violations_json(const SoundnessResult& r) {
  Json all = Json::array();
  for (const SpecimenResult& v : r.violations) all.push_back(violation_json(v));
  return all;
}

std::string report(const SoundnessResult& r) {
  dataset::TextTable rows(
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
  std::string text = rows.text();
  text +=
      "stream ok, all ok: certified for the format, of the residual stream and of every signal; tightness: largest "
      "value that a run reached over the largest bound of the class.\n";
  for (const SpecimenResult& v : r.violations) text += fmt::format("\n{}", breach_text(r, v));
  return text + (r.violated == 0
                     ? fmt::format("no certified number was passed: {} checkpoints, {} runs\n", r.checkpoints, r.runs)
                     : fmt::format("{} of {} checkpoints passed a certified number\n", r.violated, r.checkpoints));
}

}  // namespace periscope::soundness
