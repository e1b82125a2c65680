#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/certify/certify.h"
#include "sim/base/printable.h"

namespace periscope::certify {

using theory::SignalBound;
using theory::SignalClass;

namespace {

/// Returns the headroom of a class (its smallest ratio of limit to bound) as "3x", "(3x)" if a signal upstream may
/// overflow, or "NO 0.5x SIGNAL" below 1. Empty if the class has no signal.
std::string headroom_of_class(const CertifyResult& r, SignalClass kind, const NumberFormat& f) {
  const theory::Certificate& c = r.certificates.of(kind, f);
  const SignalBound* at = nullptr;
  double least = theory::infinity;
  for (const SignalBound& b : c.bounds) {
    if (theory::class_of(b.signal) != kind) continue;
    const double left = (c.arithmetic.kind == Arithmetic::exact ? f.largest : c.limit(b)) / b.largest;
    if (at == nullptr || left < least) std::tie(at, least) = std::pair(&b, left);
  }
  if (at == nullptr) return "";
  if (least < 1.0) return fmt::format("NO {:.2g}x {}", least, name_of(at->signal));
  const std::string factor = std::isinf(least) ? "all 0" : fmt::format("{:.3g}x", least);
  return r.verdict(kind, f).certified ? factor : "(" + factor + ")";
}

std::string classes(const CertifyResult& r) {
  std::vector<std::string> titles{"", ">exact bound", "largest at"};
  for (const NumberFormat& f : r.config.formats) titles.push_back(fmt::format(">{}", f.name));
  if (r.measured) titles.emplace_back(">measured");
  dataset::TextTable table(titles);
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const auto kind = static_cast<SignalClass>(k);
    const SignalBound* exact = r.certificates.exact.worst(kind);
    if (exact == nullptr && r.certificates.runs.empty()) continue;
    std::vector<std::string> cells{std::string(theory::signal_class_names[k]), "", ""};
    if (exact != nullptr) cells[1] = std::isinf(exact->largest) ? "none" : dataset::number(exact->largest);
    if (exact != nullptr)
      cells[2] = place_text({exact->signal, exact->sublayer, exact->channel, exact->expert}, r.spec.model);
    for (const NumberFormat& f : r.config.formats) cells.push_back(headroom_of_class(r, kind, f));
    double seen = std::nan("");
    for (const SignalBound& b : r.certificates.exact.bounds) {
      if (r.measured && theory::class_of(b.signal) == kind)
        seen = std::fmax(seen, r.measured->largest(b.signal, b.sublayer));
    }
    if (r.measured && exact != nullptr) cells.push_back(dataset::number(seen));
    table.add(std::move(cells));
  }
  std::string text =
      table.text() +
      "exact bound: in exact arithmetic; formats: headroom, the smallest ratio of the "
      "format's limit to a bound in its arithmetic; NO: this signal may overflow; in brackets: not "
      "certified, because a signal upstream may overflow; cache: keys after RoPE and QK-norm, and values, for "
      "formats of 8 bits in a run in bf16; dots: q·k before the division by √d_head; inside: intermediate results of "
      "norms, softmax and products";
  if (!r.domain.tokens && std::isinf(r.domain.largest)) {
    text += "; inputs can be any numbers of the format, so the headroom of their class is at most 1x";
  }
  return text + ".\n";
}

/// Returns the bounds on keys and values of the heads with the largest ones.
std::string heads(const CertifyResult& r) {
  constexpr std::size_t shown = 5;
  std::vector<std::tuple<double, std::string>> all;
  for (const CachedHead& head : cached_heads(r.certificates.exact, r.spec.model)) {
    all.emplace_back(head.bound, fmt::format("{} of layer {}, head {}: {:.4g}", name_of(head.signal), head.layer,
                                             head.head, head.bound));
  }
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& row) { return std::get<0>(row); });
  all.resize(std::min(all.size(), shown));
  std::vector<std::string> words;
  for (const auto& [bound, text] : all) words.push_back(text);
  return fmt::format("largest cached entries in exact arithmetic: {}\n", fmt::join(words, "; "));
}

/// Returns the products that may overflow FP16 accumulators, with a remedy for each.
std::string products(const CertifyResult& r) {
  if (r.certificates.in(fp16).arithmetic.kind == Arithmetic::exact) return "";
  dataset::TextTable table({"FP16 accumulators", "sublayer", ">partial sums", ">headroom", "remedy"});
  const std::vector<theory::ProductBound> all = overflowing_products(r);
  for (const theory::ProductBound& p : all) {
    const std::string place = place_text({Signal::sums, p.sublayer, 0}, r.spec.model);
    const auto shift = p.curing_shift(fp16);
    table.add({std::string(p.name), place.substr(place.find(", ") + 2), dataset::number(p.sums_in(fp16)),
               fmt::format("{:.2g}x", fp16.largest / p.sums_in(fp16)),
               shift ? fmt::format("multiply {} by 2^-{}", p.operand(), *shift) : "none"});
  }
  const std::string what = "products with FP16 accumulators, one at a time";
  return all.empty() ? fmt::format("{}: no partial sum can overflow\n", what)
                     : table.text() + what + "; others cannot overflow.\n";
}

std::string input_of(const CertifyResult& r) {
  if (r.domain.tokens) return "token ids";
  return std::isinf(r.domain.largest) ? "real vectors"
                                      : fmt::format("real vectors with entries up to {:g}", r.domain.largest);
}

std::string verdict_line(const CertifyResult& r, const NumberFormat& f) {
  const theory::Certificate& c = r.certificates.in(f);
  const std::string where =
      fmt::format("{} in {} arithmetic", f.name, arithmetic_names[static_cast<std::size_t>(c.arithmetic.kind)]);
  const theory::Verdict stream = r.verdict(SignalClass::stream, f);
  const auto shaded = [](fmt::terminal_color shade, const std::string& words) {
    return fmt::format(fmt::fg(shade), "{}", words) + "\n";
  };
  if (!stream.certified) {
    const std::string why = reason_of(stream, r.spec.model);
    return shaded(fmt::terminal_color::yellow, fmt::format("not certified for {}: {}", where, why));
  }
  const std::string longest = c.longest > 0 ? fmt::format("up to {} ", c.longest) : "";
  const std::string line =
      fmt::format("{}: no input of {}{} can overflow the residual stream", where, longest, input_of(r));
  std::vector<std::string_view> others;
  for (std::size_t k = 1; k < theory::signal_class_names.size(); ++k) {
    if (!r.verdict(static_cast<SignalClass>(k), f).certified) others.push_back(theory::signal_class_names[k]);
  }
  return shaded(
      fmt::terminal_color::green,
      line + (others.empty() ? " or any other signal" : fmt::format("; not certified: {}", fmt::join(others, ", "))));
}

std::string conditions(const CertifyResult& r) {
  static constexpr std::array<const char*, arithmetic_names.size()> meanings{
      "Exact arithmetic on the stored weights: roundings and intermediate sums of a run are not covered",
      "Mixed arithmetic: weights and every op's result are rounded to the format; sums, norms and softmax are "
      "accumulated in fp32",
      "Pure arithmetic: weights, results, partial sums, and intermediate results of norms and softmax are in the "
      "format"};
  std::string text = meanings[static_cast<std::size_t>(r.config.arithmetic)];
  if (r.config.arithmetic != Arithmetic::exact) {
    text +=
        ". Assumed: rounding to nearest, gradual underflow, two-pass variances, and each activation and soft-cap tanh "
        "as one op";
  }
  if (const std::vector<std::string> rest = not_covered(r); !rest.empty()) {
    text += fmt::format(".\nNot covered: {}", fmt::join(rest, "; "));
  }
  return text + ".\n";
}

std::string attacks(const CertifyResult& r) {
  std::string text;
  for (const AttackResult& a : r.attacks) {
    text += fmt::format("attack on {}: largest magnitude found {:.6g}, {:.2f} % of the bound\n",
                        place_text(a.place, r.spec.model), a.reached, 100.0 * a.ratio());
  }
  if (const auto& exceeded = r.check.exceeded) {
    text += fmt::format("BOUND EXCEEDED: {}: found {:.17g}, above the bound {:.17g}\n",
                        place_text(exceeded->place, r.spec.model), exceeded->reached, exceeded->bound);
  }
  if (r.check.overflowed) {
    text += fmt::format(
        "the pass in {} overflowed at {}, as its certificate allows; later signals were not compared with bounds\n",
        r.own->arithmetic.stored.name, place_text(*r.check.overflowed, r.spec.model));
  }
  return text;
}

std::string headroom(const CertifyResult& r) {
  const Headroom& h = r.headroom;
  if (h.formats.empty())
    return fmt::format("headroom: the stream cannot be scaled; {}\n", why_unscalable(r.spec.model));
  std::string text = fmt::format(
      "headroom: a stream c times as large leaves the function unchanged, except for eps, if\n  c multiplies {}\n",
      fmt::join(h.recipe.multiplied, "; "));
  if (!h.recipe.divided.empty()) text += fmt::format("  c divides {}\n", fmt::join(h.recipe.divided, "; "));
  if (std::ranges::any_of(h.formats, [](const FormatHeadroom& f) { return !std::isnan(f.branch); })) {
    text += "  k multiplies W_o, W_down (W_up of a gated MLP) and their biases before norms B, which cancel it\n";
  }
  std::vector<std::string> titles{"format", ">c certified", ">k certified"};
  if (r.measured) titles.emplace_back(">c measured");
  titles.emplace_back("");
  dataset::TextTable table(titles);
  for (const FormatHeadroom& f : h.formats) {
    std::vector<std::string> row{std::string(f.format.name), dataset::number(f.stream), dataset::number(f.branch)};
    if (r.measured) row.push_back(std::isinf(f.measured) ? "any" : dataset::number(f.measured));
    row.push_back(f.reason);
    table.add(std::move(row));
  }
  text += table.text(2);
  if (r.measured)
    text += fmt::format("  c measured: largest c for which {} times the measured maximum fits the format\n",
                        Headroom::margin);
  if (!h.run) return text;
  const ScaledRun& run = *h.run;
  text += fmt::format(
      "  run with c = {:g}, k = {:g} on {} tokens: largest difference of logits {:.2g} times the largest logit, {:.2g} "
      "times at eps = 0, {:.2g} times if only the embedding and gains are scaled\n",
      run.scale.stream, run.scale.branch, run.tokens, run.difference, run.without_eps, run.gains_alone);
  for (const NumberFormat& f : r.config.formats) {
    const theory::Certificate& scaled = run.certificates.in(f);
    const std::string reason = reason_of(theory::verdict(scaled, std::nullopt, f), run.model);
    const bool stream = theory::verdict(scaled, SignalClass::stream, f).certified;
    text += fmt::format("  scaled stack in {}: {}certified {}\n", f.name, stream ? "" : "not ",
                        reason.empty() ? "everywhere" : fmt::format("on the residual stream ({})", reason));
  }
  return text;
}

}  // namespace

std::string table(const CertifyResult& r) {
  std::string text =
      fmt::format("{}: bounds for {}\n", printable(r.model), input_of(r)) + classes(r) + heads(r) + products(r);
  for (const NumberFormat& f : r.config.formats) text += verdict_line(r, f);
  return text + conditions(r) + attacks(r) + headroom(r);
}

}  // namespace periscope::certify
