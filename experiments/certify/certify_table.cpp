#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "experiments/certify/certify.h"

namespace periscope {

using theory::SignalBound;
using theory::SignalClass;

namespace {

constexpr std::array<std::string_view, 7> class_titles{"residual stream",  "branch inputs and outputs",
                                                       "attention inside", "attention scores",
                                                       "MLP inside",       "output and logits",
                                                       "inside the ops"};

std::string title_of(SignalClass kind) { return std::string(class_titles[static_cast<std::size_t>(kind)]); }

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// Room that is left: format over bound.
std::string room(double largest, double bound) {
  return bound <= largest ? fmt::format("{:.3g}x", largest / bound) : fmt::format("NO {:.2g}x", largest / bound);
}

SignalPlace place_of(const SignalBound& b) { return {b.signal, b.sublayer, b.channel}; }

/// The largest measured value of a class.
double measured_of(const CertifyResult& r, SignalClass kind) {
  double largest = 0.0;
  for (const SignalBound& b : r.certificate.bounds) {
    if (theory::class_of(b.signal) == kind) largest = std::max(largest, r.measured->largest(b.signal, b.sublayer));
  }
  return largest;
}

std::string classes(const CertifyResult& r, const std::vector<NumberFormat>& formats) {
  std::string text = fmt::format("{:<27}{:>11}  {:<40}", "", "bound", "largest at");
  for (const NumberFormat& f : formats) text += fmt::format("{:>12}", f.name);
  if (r.measured) text += fmt::format("{:>12}{:>9}", "measured", "ratio");
  text += "\n";
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const auto kind = static_cast<SignalClass>(k);
    const SignalBound* worst = r.certificate.worst(kind);
    if (worst == nullptr) continue;
    text += fmt::format("{:<27}{:>11.4g}  {:<40}", title_of(kind), worst->largest,
                        place_text(place_of(*worst), r.spec.model));
    for (const NumberFormat& f : formats) text += fmt::format("{:>12}", room(f.largest, worst->largest));
    if (r.measured) {
      const double measured = measured_of(r, kind);
      text += fmt::format("{:>12.4g}{:>9.3g}", measured, worst->largest / measured);
    }
    text += "\n";
  }
  return text;
}

std::string verdicts(const CertifyResult& r, const std::vector<NumberFormat>& formats, bool colour) {
  std::string text;
  for (const NumberFormat& f : formats) {
    const SignalBound& stream = *r.certificate.worst(SignalClass::stream);
    const bool certified = stream.largest <= f.largest;
    std::string line =
        certified ? fmt::format("no input can overflow {} on the residual stream", upper(f.name))
                  : fmt::format("not certified for {}: the residual stream may reach {:.4g} > {:g} ({})", upper(f.name),
                                stream.largest, f.largest, place_text(place_of(stream), r.spec.model));
    if (certified) {
      std::vector<std::string> others;
      for (std::size_t k = 1; k < theory::signal_class_names.size(); ++k) {
        const SignalBound* worst = r.certificate.worst(static_cast<SignalClass>(k));
        if (worst != nullptr && !(worst->largest <= f.largest)) others.push_back(title_of(static_cast<SignalClass>(k)));
      }
      line += others.empty() ? ", nor anywhere else" : fmt::format("; not certified: {}", fmt::join(others, ", "));
    }
    const auto shade = certified ? fmt::terminal_color::green : fmt::terminal_color::yellow;
    text += (colour ? fmt::format(fmt::fg(shade), "{}", line) : line) + "\n";
  }
  return text;
}

std::string attacks(const CertifyResult& r) {
  std::string text;
  for (const AttackResult& a : r.attacks) {
    text += fmt::format("attack on {}: reached {:.6g}, {:.2f} % of the bound\n", place_text(a.place, r.spec.model),
                        a.reached, 100.0 * a.ratio());
  }
  if (r.exceeded) {
    text += fmt::format("BOUND EXCEEDED: {} reached {:.17g}, the bound is {:.17g}\n",
                        place_text(r.exceeded->place, r.spec.model), r.exceeded->reached, r.exceeded->bound);
  }
  return text;
}

std::string headroom(const CertifyResult& r, const std::vector<NumberFormat>& formats) {
  const Headroom& h = r.headroom;
  if (!h.possible) return "headroom: the stack's output is its result, so its stream cannot be scaled\n";
  std::string text = fmt::format(
      "headroom: the stream can be c times as large and the function the same, but for "
      "eps, if\n  c multiplies {}",
      fmt::join(h.recipe.multiplied, "; "));
  if (!h.recipe.divided.empty()) text += fmt::format("\n  c divides {}", fmt::join(h.recipe.divided, "; "));
  text += "\n";
  for (const FormatHeadroom& f : h.formats) {
    if (std::ranges::find(formats, f.format.name, &NumberFormat::name) == formats.end()) continue;
    text += fmt::format("  {:<9} certified for c up to {:.4g}", f.format.name, f.stream);
    if (!std::isnan(f.measured)) {
      text += fmt::format(", {} times what was measured fits for c up to {:.4g}", Headroom::margin, f.measured);
    }
    if (!std::isnan(f.branch)) text += fmt::format("; before norms B for k up to {:.4g}", f.branch);
    text += "\n";
  }
  if (!h.run) return text;
  const ScaledRun& run = *h.run;
  text += fmt::format(
      "  run with c = {:g}, k = {:g} on {} tokens: logits differ by {:.2g} of the largest, {:.2g} at eps = 0; gains "
      "alone: {:.2g}\n",
      run.scale.stream, run.scale.branch, run.tokens, run.difference, run.without_eps, run.gains_alone);
  for (const NumberFormat& f : formats) {
    const bool all = is_certified(run.certificate, {std::nullopt, f});
    const bool stream = is_certified(run.certificate, {SignalClass::stream, f});
    text += fmt::format("  then {}: {}\n", f.name,
                        all      ? "certified everywhere"
                        : stream ? "certified on the residual stream"
                                 : "not certified");
  }
  return text;
}

}  // namespace

std::string certify_table(const CertifyResult& r, const std::vector<NumberFormat>& formats, bool colour) {
  const std::string input = r.domain.tokens                ? "any token ids"
                            : std::isinf(r.domain.largest) ? "any real vectors"
                                                           : fmt::format("real entries up to {:g}", r.domain.largest);
  std::string text = fmt::format("{}: bounds for {}, any length; {:.2f} s\n", r.model, input, r.seconds);
  text += classes(r, formats) + verdicts(r, formats, colour) + attacks(r) + headroom(r, formats);
  text +=
      "Bounds are of exact arithmetic on the stored weights, for every signal at rest: rounding of a run in low "
      "precision,\nand sums on the way to a signal (products of matrices, squares in norms), are not covered.\n";
  return text;
}

}  // namespace periscope
