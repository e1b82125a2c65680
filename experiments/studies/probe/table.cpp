#include <fmt/format.h>

#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/probe/probe.h"
#include "sim/base/printable.h"
#include "sim/numerics/number_format.h"

namespace periscope::probe {
namespace {

/// Four digits, or a dash for no number.
std::string digits(double x) { return dataset::number(x); }

double at(const Profile& profile, Statistic statistic, Signal signal, std::size_t index) {
  const Curve* curve = profile.find(statistic, signal);
  return curve == nullptr ? std::nan("") : curve->value.at(index);
}

std::string heading(const ProbeResult& r) {
  const ModelSpec& m = r.at_init.model;
  std::string text = fmt::format("{}: {}{}{}, {} layers, width {}, {} tokens, {}\n", printable(r.model), r.family,
                                 r.family.empty() ? "" : ", ", m.placement.name, m.layers, m.width, r.input.ids.size(),
                                 name_of(r.dtype));
  if (!std::isnan(r.measured.loss)) {
    text += fmt::format("loss {} nats per token, perplexity {}\n", dataset::number(r.measured.loss, "{:.6g}"),
                        dataset::number(std::exp(r.measured.loss), "{:.6g}"));
  }
  return text;
}

/// A row per sublayer: the stream, the identity T15, and the branch's size.
std::string growth_rows(const ProbeResult& r) {
  const std::vector<double>& stream = r.measured.reading.profile.find(Statistic::maximum, Signal::x_out)->value;
  dataset::TextTable table({"sublayer", ">init E[x²]", ">scales E[x²]", ">E[x²]", ">= α²E[x²]", ">+ β²E[b²]",
                            ">+ cross", ">cross/b²", ">b² by γ", ">max |x|", ">margin"});
  const Profile& scales = r.nulls[stacks::matrices_null].predicted.profile;
  for (std::size_t depth = 0; depth <= r.measured.growth.size(); ++depth) {
    const auto moment = [&](const Profile& p) { return at(p, Statistic::second_moment, Signal::x_out, depth); };
    const double largest = stream.at(depth);
    if (depth == 0) {
      table.add({"input", digits(moment(r.initial.profile)), digits(moment(scales)),
                 digits(moment(r.measured.reading.profile)), "", "", "", "", "", digits(largest),
                 digits(fp16.largest / largest)});
      continue;
    }
    const std::size_t l = depth - 1;
    const Growth& g = r.measured.growth[l];
    table.add({fmt::format("{:>3} {}", l, ModelSpec::is_attention(static_cast<int>(l)) ? "attention" : "mlp"),
               digits(moment(r.initial.profile)), digits(moment(scales)), digits(g.sum), digits(g.stream),
               digits(g.branch), digits(g.cross), digits(g.cross / g.branch), digits(r.measured.branch_from_gains[l]),
               digits(largest), digits(fp16.largest / largest)});
  }
  return table.text();
}

/// A part of growth with its error, if it has one.
std::string with_error(double value, double error) { return dataset::with_error(value, error, "{:.3f}", "{:.3f}"); }

/// Returns the lines that split the second moment after the last sublayer into parts (growth_split), and give the
/// excess over every null (left_over).
std::string split_row(const ProbeResult& r) {
  const std::optional<GrowthSplit> split = growth_split(r);
  if (!split) return {};
  const double scales = split->from_scales.back();
  const double inside = split->from_sizes_inside.back();
  const double alignment = split->from_alignment.value.back();
  if (std::isnan(scales) || std::isnan(alignment)) return {};
  std::string text = fmt::format(
      "log(E[x²]/init) after the last sublayer: {:.3f} = {:.3f} from the sizes of matrices + {:.3f} from sizes inside "
      "them + {} from their alignment\n",
      scales + inside + alignment, scales, inside, with_error(alignment, split->from_alignment.error.back()));
  for (std::size_t i = 0; i < stacks::size_nulls.size(); ++i) {
    const LeftOver left = left_over(r, i);
    if (std::isnan(left.value.back())) continue;
    text += fmt::format("  beyond random weights with {}: {}\n", stacks::size_nulls[i].meaning,
                        with_error(left.value.back(), left.error.back()));
  }
  if (const int draws = r.nulls[stacks::rank_one_null].drawn.draws; draws > 0) {
    text += fmt::format("  ±: what one random model has there, root mean square over {} of each\n", draws);
  }
  return text;
}

std::string massive_rows(const ProbeResult& r) {
  std::string text = "largest |x| of the stream, its token and feature\n";
  for (std::size_t depth = 0; depth < r.measured.extremes.size(); ++depth) {
    const StreamExtremes& e = r.measured.extremes[depth];
    const Entry& top = e.top.front();
    if (std::isnan(top.value)) {
      text += fmt::format("  depth {:>3}  not finite\n", depth);
      continue;
    }
    const auto token = static_cast<std::size_t>(top.row);
    const int id = r.input.ids[token];
    const std::string piece =
        r.input.tokenizer == nullptr ? "" : " \"" + stacks::visible(r.input.tokenizer->piece(id)) + "\"";
    text += fmt::format("  depth {:>3}  {:>10}  {:>8} x median  token {:>4} (id {}{})  feature {}{}\n", depth,
                        digits(top.value), digits(std::abs(top.value) / e.median), token, id, piece, top.col,
                        is_massive(top, e.median) ? "  massive" : "");
  }
  return text;
}

std::string margin_rows(const ProbeResult& r) {
  std::string text = "smallest margin of each format: its largest number over max |x|\n";
  const std::vector<SignalPeaks> maxima = signal_peaks(r.measured);
  for (const NumberFormat& format : number_formats) {
    const Margin m = smallest_margin(maxima, format.largest);
    const bool depth = m.signal == "x_out" || m.signal == "r_out";
    text += fmt::format("  {:<9} {:>11} / {:<10} = {:<10} at {}, {} {}{}\n", format.name,
                        fmt::format("{:.6g}", format.largest), digits(format.largest / m.value), digits(m.value),
                        m.signal, depth ? "depth" : "sublayer", m.index, m.value < 1.0 ? "  overflows" : "");
  }
  return text;
}

std::string gradient_rows(const ProbeResult& r) {
  const Curve* grad = r.measured.reading.profile.find(Statistic::grad_sq, Signal::x_out);
  if (grad == nullptr) return {};
  const Curve* initial = r.initial.profile.find(Statistic::grad_sq, Signal::x_out);
  std::string text = "mean over tokens of |dloss/dx|² of the stream\n";
  for (std::size_t i = 0; i < grad->value.size(); ++i) {
    text += fmt::format("  depth {:>3}  {:>10}  at initialisation {:>10}\n", i, digits(grad->value[i]),
                        digits(initial == nullptr ? std::nan("") : initial->value[i]));
  }
  return text;
}

}  // namespace

std::string table(const ProbeResult& r) {
  std::string text = heading(r) + growth_rows(r);
  text += fmt::format(
      "init: theory at initialisation of the same shape. scales: theory of random weights with every matrix's own root "
      "mean square and all gains. E[x²]: second moment of the stream after the sublayer (before norm C), mean over "
      "tokens; it is the sum of the next three, α²E[x²], β²E[b²], 2αβE[xb]; Eq. 4 leaves out the last one. b² by γ: "
      "the branch from norm B's gains alone. margin: {:g}, the largest number of fp16, over max |x|.\n",
      fp16.largest);
  text += split_row(r) + massive_rows(r) + margin_rows(r) + gradient_rows(r);
  if (violates_growth_identity(r.measured)) text += "VIOLATED: the growth identity T15, beyond rounding\n";
  if (const int at = r.measured.reading.diverged_at; at >= 0)
    text += fmt::format("not finite from sublayer {} on\n", at);
  if (const std::string what = not_finite(r); !what.empty()) text += fmt::format("not finite: {}\n", what);
  for (const std::string& note : r.notes) text += "note: " + printable(note) + "\n";
  return text;
}

}  // namespace periscope::probe
