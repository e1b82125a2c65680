#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "theory/certify/certificate.h"

namespace periscope::theory {

SignalClass class_of(Signal signal) {
  using enum Signal;
  static const std::vector<std::pair<SignalClass, std::vector<Signal>>> classes{
      {SignalClass::stream, {embedding, input, sum, x_out, r_out}},
      {SignalClass::branch, {A_out, inner, f_out, B_out}},
      {SignalClass::attention, {q_projected, k_projected, q, v_projected, mixed, attention_gate, gated_mixed}},
      {SignalClass::cache, {k, v}},
      {SignalClass::scores, {dots, cap_inputs, scores}},
      {SignalClass::mlp, {router, gate, up, gated, hidden}},
      {SignalClass::head, {output, projected, dense, activated, transformed, head_scores, logits}},
  };
  for (const auto& [kind, signals] : classes) {
    if (std::ranges::find(signals, signal) != signals.end()) return kind;
  }
  if (is_one_number(signal)) return SignalClass::inside;
  throw std::logic_error("certificates have no bound for the signal " + std::string(name_of(signal)));
}

const SignalBound* Certificate::find(Signal signal, int sublayer) const {
  const auto at =
      std::ranges::find_if(bounds, [&](const SignalBound& b) { return b.signal == signal && b.sublayer == sublayer; });
  return at == bounds.end() ? nullptr : &*at;
}

const SignalBound* Certificate::worst(SignalClass kind) const {
  const SignalBound* worst = nullptr;
  for (const SignalBound& b : bounds) {
    if (class_of(b.signal) == kind && (worst == nullptr || b.largest > worst->largest)) worst = &b;
  }
  return worst;
}

double Certificate::limit(const SignalBound& bound) const {
  if (arithmetic.kind == Arithmetic::exact) return infinity;
  if (cached && class_of(bound.signal) == SignalClass::cache) return cached->largest;
  return is_accumulated(bound.signal) ? arithmetic.accumulated.largest : arithmetic.stored.largest;
}

namespace {

/// Returns the verdict for the first bound that exceeds its limit, among bounds before `end` or upstream of them.
Verdict verdict_of_first(const Certificate& certificate, std::size_t end) {
  for (std::size_t i = 0; i < certificate.bounds.size(); ++i) {
    const SignalBound& b = certificate.bounds[i];
    // Intermediate values of a sublayer are listed after its signals but may feed them, so they count as upstream.
    const bool upstream = i < end || (end > 0 && class_of(b.signal) == SignalClass::inside &&
                                      b.sublayer <= certificate.bounds[end - 1].sublayer);
    if (!upstream) continue;
    const double limit = certificate.limit(b);
    if (b.largest <= limit && !std::isinf(b.largest)) continue;
    const bool of_weights = b.signal == Signal::weights && certificate.largest_weight;
    return {false, &b, limit, of_weights ? &*certificate.largest_weight : nullptr};
  }
  return {};
}

}  // namespace

Verdict verdict(const Certificate& certificate, std::optional<SignalClass> kind, const NumberFormat& format) {
  const std::vector<SignalBound>& bounds = certificate.bounds;
  const auto is_included = [&](const SignalBound& b) { return !kind || class_of(b.signal) == *kind; };
  if (certificate.arithmetic.kind == Arithmetic::exact) {
    const auto first = std::ranges::find_if(
        bounds, [&](const SignalBound& b) { return is_included(b) && !(b.largest <= format.largest); });
    return first == bounds.end() ? Verdict() : Verdict{false, &*first, format.largest};
  }
  if (kind == SignalClass::head || kind == SignalClass::inside) return verdict_of_first(certificate, bounds.size());
  const auto last = std::ranges::find_if(bounds.rbegin(), bounds.rend(), is_included);
  return verdict_of_first(certificate, static_cast<std::size_t>(bounds.rend() - last));
}

bool may_overflow(const Certificate& certificate, const SignalBound& bound) {
  if (certificate.arithmetic.kind == Arithmetic::exact) return false;
  const auto end = static_cast<std::size_t>(&bound - certificate.bounds.data()) + 1;
  return !verdict_of_first(certificate, end).certified;
}

}  // namespace periscope::theory
