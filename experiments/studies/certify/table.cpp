#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/certify/certify.h"
#include "sim/base/printable.h"

namespace periscope::certify {

using theory::SignalBound;
using theory::SignalClass;

namespace {

/// Returns the headroom of a class, its least ratio of limit to bound: in brackets if a signal upstream may overflow;
/// below 1 as NO, with the signal unless it is that of the exact bound. Empty if the class has no signal.
std::string room(const CertifyResult& r, SignalClass kind, const NumberFormat& f, const SignalBound* exact) {
  const theory::Certificate& c = r.certificates.in(f);
  const SignalBound* at = nullptr;
  double least = theory::infinity;
  for (const SignalBound& b : c.bounds) {
    if (theory::class_of(b.signal) != kind) continue;
    const double left = (c.arithmetic.kind == Arithmetic::exact ? f.largest : c.limit(b)) / b.largest;
    if (at == nullptr || left < least) std::tie(at, least) = std::pair(&b, left);
  }
  if (at == nullptr) return "";
  if (least >= 1.0) {
    const std::string factor = std::isinf(least) ? "all 0" : fmt::format("{:.3g}x", least);
    return r.verdict(kind, f).certified ? factor : "(" + factor + ")";
  }
  const bool named = exact == nullptr || exact->signal != at->signal;
  return fmt::format("NO {:.2g}x{}", least, named ? fmt::format(" {}", name_of(at->signal)) : "");
}

double measured_of(const CertifyResult& r, SignalClass kind) {
  double largest = 0.0;
  for (const SignalBound& b : r.certificates.exact.bounds) {
    if (theory::class_of(b.signal) == kind) largest = std::max(largest, r.measured->largest(b.signal, b.sublayer));
  }
  return largest;
}

std::string classes(const CertifyResult& r) {
  std::vector<std::string> titles{"", ">exact bound", "largest at"};
  for (const NumberFormat& f : r.formats) titles.push_back(fmt::format(">{}", f.name));
  if (r.measured) titles.emplace_back(">measured");
  dataset::TextTable table(titles);
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const auto kind = static_cast<SignalClass>(k);
    const SignalBound* exact = r.certificates.exact.worst(kind);
    if (exact == nullptr && r.certificates.runs.empty()) continue;
    std::vector<std::string> cells{std::string(theory::signal_class_names[k]), "", ""};
    if (exact != nullptr) cells[1] = std::isinf(exact->largest) ? "none" : dataset::number(exact->largest);
    if (exact != nullptr) cells[2] = place_text({exact->signal, exact->sublayer, exact->channel}, r.spec.model);
    for (const NumberFormat& f : r.formats) cells.push_back(room(r, kind, f, exact));
    if (r.measured && exact != nullptr) cells.push_back(dataset::number(measured_of(r, kind)));
    table.add(std::move(cells));
  }
  std::string text =
      table.text() +
      "exact bound: of exact arithmetic, and where it is largest (none: no finite bound); formats: their limit over "
      "the bound in their arithmetic, least of the signals in the row; NO: may overflow; the signal is named where "
      "it is not that of the exact bound; in brackets: not certified, because a signal upstream may overflow";
  if (r.arithmetic != Arithmetic::exact) {
    text += "; dots: q·k before the division by √d_head; inside: what norms, softmax and products compute on their way";
  }
  if (!r.domain.tokens && std::isinf(r.domain.largest)) {
    text += "; an input is any number that the format holds, so that its own row has at most 1x";
  }
  return text + ".\n";
}

std::string input_of(const CertifyResult& r) {
  if (r.domain.tokens) return "token ids";
  return std::isinf(r.domain.largest) ? "real vectors" : fmt::format("real entries up to {:g}", r.domain.largest);
}

std::string verdict_line(const CertifyResult& r, const NumberFormat& f) {
  const theory::Certificate& c = r.certificates.in(f);
  const std::string where =
      fmt::format("{} in {} arithmetic", f.name, arithmetic_names[static_cast<std::size_t>(c.arithmetic.kind)]);
  const theory::Verdict stream = r.verdict(SignalClass::stream, f);
  if (!stream.certified) return fmt::format("not certified for {}: {}", where, reason_of(stream, r.spec.model));
  const std::string line =
      c.arithmetic.kind == Arithmetic::exact
          ? fmt::format("{}: no {} take the residual stream beyond {:g}", where, input_of(r), f.largest)
          : fmt::format("{}: no {}, up to {} of them, can overflow the residual stream", where, input_of(r), c.longest);
  if (r.verdict(std::nullopt, f).certified) return line + ", nor anything else";
  std::vector<std::string_view> others;
  for (std::size_t k = 1; k < theory::signal_class_names.size(); ++k) {
    if (!r.verdict(static_cast<SignalClass>(k), f).certified) others.push_back(theory::signal_class_names[k]);
  }
  return line + fmt::format("; not certified: {}", fmt::join(others, ", "));
}

std::string verdicts(const CertifyResult& r) {
  std::string text;
  for (const NumberFormat& f : r.formats) {
    const bool certified = r.verdict(SignalClass::stream, f).certified;
    const auto shade = certified ? fmt::terminal_color::green : fmt::terminal_color::yellow;
    text += fmt::format(fmt::fg(shade), "{}", verdict_line(r, f)) + "\n";
  }
  return text;
}

std::string conditions(const CertifyResult& r) {
  static constexpr std::array<const char*, arithmetic_names.size()> meanings{
      "Exact arithmetic on the stored weights, which nobody runs: rounding and sums on the way are not covered",
      "Mixed arithmetic: weights and every op's result are rounded to the format, sums, norms and softmax are "
      "accumulated in fp32",
      "Pure arithmetic: weights, results, partial sums and the insides of norms and softmax are in the format"};
  std::string text = meanings[static_cast<std::size_t>(r.arithmetic)];
  if (r.arithmetic != Arithmetic::exact) {
    text +=
        ", always to nearest, with gradual underflow, variances in two passes, activations and soft caps' tanh as one "
        "operation";
    std::vector<std::string_view> rounded;
    for (const NumberFormat& f : r.formats) {
      if (r.certificates.in(f).weights_rounded) rounded.push_back(f.name);
    }
    if (!rounded.empty()) text += fmt::format("; weights change when rounded to {}", fmt::join(rounded, ", "));
  }
  if (const std::vector<std::string> rest = not_covered(r); !rest.empty()) {
    text += fmt::format(".\nNot covered: {}", fmt::join(rest, "; "));
  }
  return text + ".\n";
}

std::string attacks(const CertifyResult& r) {
  std::string text;
  for (const AttackResult& a : r.attacks) {
    text += fmt::format("attack on {}: reached {:.6g}, {:.2f} % of the bound\n", place_text(a.place, r.spec.model),
                        a.reached, 100.0 * a.ratio());
  }
  if (const auto& exceeded = r.check.exceeded) {
    text += fmt::format("BOUND EXCEEDED: {} reached {:.17g}, the bound is {:.17g}\n",
                        place_text(exceeded->place, r.spec.model), exceeded->reached, exceeded->bound);
  }
  if (r.check.overflowed) {
    text += fmt::format("{} overflowed at {}, as its certificate allows; what follows was not compared with bounds\n",
                        r.own->arithmetic.stored.name, place_text(*r.check.overflowed, r.spec.model));
  }
  return text;
}

std::string headroom(const CertifyResult& r) {
  const Headroom& h = r.headroom;
  if (h.formats.empty())
    return fmt::format("headroom: {}, so the stream cannot be scaled\n", why_unscalable(r.spec.model));
  std::string text = fmt::format(
      "headroom: the stream can be c times as large and the function the same, but for eps, if\n  c multiplies {}\n",
      fmt::join(h.recipe.multiplied, "; "));
  if (!h.recipe.divided.empty()) text += fmt::format("  c divides {}\n", fmt::join(h.recipe.divided, "; "));
  if (std::ranges::any_of(h.formats, [](const FormatHeadroom& f) { return !std::isnan(f.branch); })) {
    text +=
        "  k multiplies W_o, W_down (of a gated MLP W_up instead) and their biases before norms B, which take it out\n";
  }
  dataset::TextTable table({"largest", ">c certified", ">k certified", ">c measured", ""});
  for (const FormatHeadroom& f : h.formats) {
    if (std::ranges::find(r.formats, f.format.name, &NumberFormat::name) == r.formats.end()) continue;
    table.add({std::string(f.format.name), dataset::number(f.stream), dataset::number(f.branch),
               std::isinf(f.measured) ? "any" : dataset::number(f.measured), f.reason});
  }
  text += fmt::format("{}  c measured: {} times what was measured fits\n", table.text(2), Headroom::margin);
  if (!h.run) return text;
  const ScaledRun& run = *h.run;
  text += fmt::format(
      "  run with c = {:g}, k = {:g} on {} tokens: logits differ by {:.2g} of the largest, {:.2g} at eps = 0, "
      "{:.2g} if only the embedding and gains were scaled\n",
      run.scale.stream, run.scale.branch, run.tokens, run.difference, run.without_eps, run.gains_alone);
  for (const NumberFormat& f : r.formats) {
    const theory::Certificate& scaled = run.certificates.in(f);
    const std::string reason = reason_of(verdict_of(scaled, {std::nullopt, f}), run.model);
    const bool stream = verdict_of(scaled, {SignalClass::stream, f}).certified;
    const char* judged = stream ? "certified on the residual stream" : "not certified";
    text += fmt::format("  then {}: {}\n", f.name,
                        reason.empty() ? "certified everywhere" : fmt::format("{} ({})", judged, reason));
  }
  return text;
}

}  // namespace

std::string table(const CertifyResult& r) {
  return fmt::format("{}: bounds for {}\n", printable(r.model), input_of(r)) + classes(r) + verdicts(r) +
         conditions(r) + attacks(r) + headroom(r);
}

}  // namespace periscope::certify
