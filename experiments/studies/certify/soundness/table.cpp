#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/certify/soundness/soundness.h"

namespace periscope::soundness {
namespace {

std::string_view kind_name(const RunArithmetic& a) { return arithmetic_names[static_cast<std::size_t>(a.kind)]; }

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

}  // namespace

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

std::string table(const SoundnessResult& r) {
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
  std::string table = rows.text();
  table +=
      "stream ok, all ok: certified for the format, of the residual stream and of every signal; tightness: largest "
      "value that a run reached over the largest bound of the class.\n";
  for (const SpecimenResult& v : r.violations) table += fmt::format("\n{}", breach_text(r, v));
  const std::string verdict =
      r.violated == 0 ? fmt::format("no certified number was passed: {} checkpoints, {} runs", r.checkpoints, r.runs)
                      : fmt::format("{} of {} checkpoints passed a certified number", r.violated, r.checkpoints);
  const auto shade = r.violated == 0 ? fmt::terminal_color::green : fmt::terminal_color::red;
  return table + fmt::format(fmt::fg(shade), "{}", verdict) + "\n";
}

}  // namespace periscope::soundness
