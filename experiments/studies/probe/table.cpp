#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/probe/probe.h"
#include "sim/base/printable.h"
#include "sim/numerics/number_format.h"

namespace periscope::probe {
namespace {

using dataset::number;

std::string heading(const ProbeResult& r) {
  const ModelSpec& m = r.at_init.model;
  std::string text =
      fmt::format("{}: {}{}{}, {}, width {}, {}, {}\n", printable(r.model), r.family, r.family.empty() ? "" : ", ",
                  m.placement.name, dataset::counted(fmt::to_string(m.layers), "layer"), m.width,
                  dataset::counted(fmt::to_string(r.input.ids.size()), "token"), name_of(r.dtype));
  if (!std::isnan(r.measured.loss)) {
    text += fmt::format("loss {} nats per token, perplexity {}\n", number(r.measured.loss, "{:.6g}"),
                        number(std::exp(r.measured.loss), "{:.6g}"));
  }
  return text;
}

std::string at_depth(const Profile& profile, Statistic statistic, std::size_t depth) {
  const Curve* curve = profile.find(statistic, Signal::x_out);
  return number(curve == nullptr ? std::nan("") : curve->value.at(depth));
}

std::vector<std::string> place_of(const ProbeResult& r, const StreamExtremes& e) {
  const Entry& top = e.top.front();
  if (std::isnan(top.value)) return {"not finite", ""};
  const int id = r.input.ids[static_cast<std::size_t>(top.row)];
  const auto& tokenizer = r.input.tokenizer;
  const std::string piece = tokenizer == nullptr ? "" : " \"" + stacks::escaped(tokenizer->piece(id)) + "\"";
  return {fmt::format("{} (id {}{})", top.row, id, piece),
          fmt::format("{}{}", top.col, is_massive(top, e.median) ? " massive" : "")};
}

/// Returns a table with one row per depth: the stream, its largest entry, its gradient, and the growth identity (T15).
std::string depth_rows(const ProbeResult& r) {
  const Profile& measured = r.measured.reading.profile;
  const Profile& scales = r.nulls[stacks::matrices_null].predicted.profile;
  const bool has_gradients = measured.find(Statistic::grad_sq, Signal::x_out) != nullptr;
  std::vector<std::string> titles{"sublayer", ">init E[x²]", ">scales E[x²]", ">E[x²]",  ">max |x|",
                                  ">margin",  ">x median",   ">token",        ">feature"};
  if (has_gradients) titles.insert(titles.end(), {">|dloss/dx|²", ">init |dloss/dx|²"});
  titles.insert(titles.end(), {">α²E[x²]", ">β²E[b²]", ">cross", ">cross/β²E[b²]", ">β²E[b²] by γ"});
  dataset::TextTable table(titles);
  for (std::size_t depth = 0; depth < r.measured.extremes.depths.size(); ++depth) {
    const StreamExtremes& e = r.measured.extremes.depths[depth];
    const double largest = std::abs(e.top.front().value);
    std::vector<std::string> row{"input",
                                 at_depth(r.initial.profile, Statistic::second_moment, depth),
                                 at_depth(scales, Statistic::second_moment, depth),
                                 at_depth(measured, Statistic::second_moment, depth),
                                 number(largest),
                                 number(fp16.largest / largest),
                                 number(largest / e.median)};
    for (std::string& cell : place_of(r, e)) row.push_back(std::move(cell));
    for (const Profile* p : {&measured, &r.initial.profile}) {
      if (has_gradients) row.push_back(at_depth(*p, Statistic::grad_sq, depth));
    }
    if (depth > 0) {
      const std::size_t l = sublayer_before(r.measured, depth);
      const Growth& g = r.measured.growth[l];
      const bool attention = ModelSpec::is_attention(static_cast<int>(l));
      row[0] = depth == l + 1 ? fmt::format("{:>3} {}", l, attention ? "attention" : "mlp")
                              : fmt::format("layer {}", depth - 1);
      if (!std::isnan(g.sum)) row[3] = number(g.sum);
      for (const double x : {g.stream, g.branch, g.cross, g.cross / g.branch, r.measured.branch_from_gains[l]}) {
        row.push_back(number(x));
      }
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string with_error(double value, double error) { return dataset::with_error(value, error, "{:.3f}", "{:.3f}"); }

/// Returns lines with the split of the last sublayer's second moment (growth_split) and the excess over every null.
std::string split_row(const ProbeResult& r) {
  const std::optional<GrowthSplit> split = growth_split(r);
  if (!split) return {};
  const double scales = split->from_scales.back();
  const double inside = split->from_sizes_inside.back();
  const double alignment = split->from_alignment.value.back();
  if (std::isnan(scales) || std::isnan(alignment)) return {};
  std::string text = fmt::format(
      "log(E[x²]/init) after the last sublayer: {:.3f} = {:.3f} from sizes of matrices + {:.3f} from sizes inside "
      "matrices + {} from alignment\n",
      scales + inside + alignment, scales, inside, with_error(alignment, split->from_alignment.error.back()));
  for (std::size_t i = 0; i < stacks::size_nulls.size(); ++i) {
    const NullExcess excess = null_excess(r, i);
    if (std::isnan(excess.value.back())) continue;
    text += fmt::format("  excess over random weights with {}: {}\n", stacks::size_nulls[i].meaning,
                        with_error(excess.value.back(), excess.error.back()));
  }
  if (const std::size_t draws = r.nulls[stacks::rank_one_null].drawn.log_moment.size(); draws > 0) {
    text += fmt::format("  ±: root mean square of the same excess in {} random models per null\n", draws);
  }
  return text;
}

std::string logit_row(const ProbeResult& r) {
  const std::vector<double>& scores = r.measured.extremes.scores;
  if (scores.empty()) return {};
  const auto bad = std::ranges::find_if(scores, [](double score) { return std::isnan(score); });
  const auto at = static_cast<int>((bad != scores.end() ? bad : std::ranges::max_element(scores)) - scores.begin());
  const double largest = scores[static_cast<std::size_t>(at)];
  return fmt::format("largest |attention logit|: {}, layer {}, head {}; factor of QK-clip at {:g}: {}\n",
                     number(largest), at / r.at_init.model.heads, at % r.at_init.model.heads, qk_clip_threshold,
                     number(qk_clip_factor(largest)));
}

std::string margin_rows(const ProbeResult& r) {
  const std::vector<SignalPeaks> maxima = signal_peaks(r.measured);
  dataset::TextTable table({"format", ">largest", ">max |x|", ">margin", "at", ""});
  for (const NumberFormat& format : number_formats) {
    const Margin m = smallest_margin(maxima, format.largest);
    const bool depth = m.signal == "x_out" || m.signal == "r_out";
    table.add({std::string(format.name), number(format.largest, "{:.6g}"), number(format.largest / m.value),
               number(m.value), fmt::format("{}, {} {}", m.signal, depth ? "depth" : "sublayer", m.index),
               m.value < 1.0 ? "overflows" : ""});
  }
  return table.text();
}

}  // namespace

std::string table(const ProbeResult& r) {
  std::string text = heading(r) + depth_rows(r);
  text += fmt::format(
      "init: theory for random weights of the same shape. scales: theory for random weights with every matrix's own "
      "root mean square and all gains. E[x²]: second moment of the stream after the sublayer, mean over tokens; the "
      "measured one is taken before norm C and is the sum of α²E[x²] (x: the sublayer's input), β²E[b²] (b: the "
      "branch) and the cross term 2αβE[xb], which Eq. 4 of the Peri-LN paper omits. β²E[b²] by γ: predicted from norm "
      "B's gains alone. max |x|, x median, token, feature: the stream's largest entry, its ratio to the median, and "
      "its position. {}margin: {:g}, the largest number of fp16, over max |x|; in the table below, the largest number "
      "of each format over max |x|.\n",
      r.measured.reading.profile.find(Statistic::grad_sq, Signal::x_out) == nullptr
          ? ""
          : "|dloss/dx|²: squared gradient of the stream, mean over tokens. ",
      fp16.largest);
  text += split_row(r) + margin_rows(r) + logit_row(r);
  if (violates_growth_identity(r.measured)) text += "VIOLATED: growth identity (T15), beyond rounding\n";
  if (const int at = r.measured.reading.diverged_at; at >= 0)
    text += fmt::format("not finite from sublayer {} on\n", at);
  if (const std::string name = not_finite(r); !name.empty()) text += fmt::format("not finite: {}\n", name);
  for (const std::string& note : r.notes) text += "note: " + printable(note) + "\n";
  return text;
}

}  // namespace periscope::probe
