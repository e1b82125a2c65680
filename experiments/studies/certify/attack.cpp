#include "experiments/studies/certify/attack.h"

#include <algorithm>
#include <cmath>

#include "sim/base/first_exception.h"
#include "sim/model/input.h"
#include "sim/random/philox.h"

namespace periscope::certify {
namespace {

double norm_of(const Backend& ops, const Tensor& x) {
  double sum = 0.0;
  for (const double s : ops.row_dots(x, x)) sum += s;
  return std::sqrt(sum);
}

/// Climbs from x as far as `steps` steps go: along the normalised gradient, a little farther after every success, half
/// as far after every failure.
struct Climb {
  Tensor x;
  double value;
};

Climb climb(const StackContext& c, Tensor x, const SignalPlace& place, double largest, int steps) {
  PeakGradient here = peak_gradient_at(c, x, place, true);
  double length = 0.3;
  for (int step = 0; step < steps && length > 1e-9; ++step) {
    const double steepness = norm_of(c.ops, here.gradient);
    if (!(steepness > 0.0)) break;
    const double scale = std::max(norm_of(c.ops, x), 1e-30);
    const Tensor next = clamped(c.ops, c.ops.axpby(1.0, x, length * scale / steepness, here.gradient), largest);
    const double value = peak_gradient_at(c, next, place, false).value;
    if (value > here.value) {
      x = next;
      here = peak_gradient_at(c, x, place, true);
      length = std::min(length * 1.5, 10.0);
    } else {
      length *= 0.5;
    }
  }
  return {x, here.value};
}

Climb climb_from_random(const StackContext& c, const SignalPlace& place, double largest, const AttackOptions& o,
                        int restart) {
  const StreamKey key{o.seed, static_cast<std::uint32_t>(restart), Stream::attack_start};
  const double spread = std::isinf(largest) ? 1.0 : largest;
  const Tensor start = clamped(c.ops, c.ops.normal(o.tokens, c.model.width, o.dtype, key, spread), largest);
  return climb(c, start, place, largest, o.steps);
}

/// Token ids, and what they reach.
struct Search {
  std::vector<int> ids;
  double value;
};

Search search_from_random(const StackContext& c, const SignalPlace& place, const AttackOptions& o, int restart) {
  constexpr int candidates = 8;
  const int room = c.model.embedding.positions - c.model.embedding.position_offset;
  const int length = c.model.embedding.positions > 0 ? std::min(o.tokens, room) : o.tokens;
  std::vector<int> draws(static_cast<std::size_t>(length + o.steps * candidates));
  fill_uniform_int({o.seed, static_cast<std::uint32_t>(restart), Stream::attack_ids}, c.model.vocab, draws);
  const auto value_of = [&](const std::vector<int>& ids) {
    return peak_gradient_at(c, embedding_forward(c, ids), place, false).value;
  };
  Search best{{draws.begin(), draws.begin() + length}, 0.0};
  best.value = value_of(best.ids);
  auto next = draws.begin() + length;
  for (int step = 0; step < o.steps; ++step) {
    const auto at = static_cast<std::size_t>(step % length);
    std::vector<int> tried = best.ids;
    for (int i = 0; i < candidates; ++i) {
      tried[at] = *next++;
      const double value = value_of(tried);
      if (value > best.value) best = {tried, value};
    }
  }
  return best;
}

/// Small stacks run one restart per thread; in a large one the ops use the threads, so that one sublayer's weights
/// are in memory. Results come in the order of the restarts.
template <class Function>
auto of_all_restarts(const ModelSpec& m, int restarts, const Function& function) {
  constexpr long largest = 1L << 20U;  // entries of a matrix
  std::vector<decltype(function(0))> found(static_cast<std::size_t>(restarts));
  FirstException failure;
#pragma omp parallel for schedule(dynamic, 1) if (static_cast <long>(m.mlp_width) * m.width <= largest)
  for (int i = 0; i < restarts; ++i) {
    failure.run([&] { found[static_cast<std::size_t>(i)] = function(i); });
  }
  failure.rethrow();
  return found;
}

}  // namespace

Tensor clamped(const Backend& ops, const Tensor& x, double largest) {
  if (std::isinf(largest)) return x;
  std::vector<double> values = ops.to_host(x);
  for (double& v : values) v = std::clamp(v, -largest, largest);
  return ops.from_host(x.rows(), x.cols(), x.dtype(), values);
}

AttackResult attack(const StackContext& c, const theory::Certificate& certificate, const SignalPlace& place,
                    const theory::InputDomain& domain, const AttackOptions& options, SignalMaxima& seen) {
  AttackResult result{.place = place};
  const auto add = [&](const auto& input, double value, auto& best) {
    if (best.size() == 0 || value > result.reached) best = input;
    result.reached = std::max(result.reached, value);
    seen.add(c, input);
  };
  if (domain.tokens) {
    const auto search = [&](int restart) { return search_from_random(c, place, options, restart); };
    for (const Search& s : of_all_restarts(c.model, options.restarts, search)) add(s.ids, s.value, result.ids);
  } else {
    const auto ascend = [&](int restart) { return climb_from_random(c, place, domain.largest, options, restart); };
    for (const Climb& top : of_all_restarts(c.model, options.restarts, ascend)) add(top.x, top.value, result.input);
  }
  result.bound = certificate.find(place.signal, place.sublayer)->magnitude[place.channel];
  return result;
}

std::vector<SignalPlace> attack_places(const theory::Certificate& certificate) {
  std::vector<SignalPlace> places;
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const theory::SignalBound* worst = nullptr;
    for (const theory::SignalBound& b : certificate.bounds) {
      if (static_cast<std::size_t>(theory::class_of(b.signal)) != k || !can_climb(b.signal)) continue;
      if (worst == nullptr || b.largest > worst->largest) worst = &b;
    }
    if (worst != nullptr) places.push_back({worst->signal, worst->sublayer, worst->channel});
  }
  return places;
}

BoundsCheck check_bounds(const theory::Certificate& certificate, const SignalMaxima& seen, double rounding) {
  BoundsCheck check;
  for (const theory::SignalBound& b : certificate.bounds) {
    const std::vector<double>* maxima = seen.find(b.signal, b.sublayer);
    if (maxima == nullptr) continue;
    for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) {
      const AttackResult at{{b.signal, b.sublayer, k}, b.magnitude[k], (*maxima)[static_cast<std::size_t>(k)]};
      if (std::isinf(at.reached) && theory::may_overflow(certificate, b)) {
        check.overflowed = at.place;
        return check;
      }
      if (at.reached <= at.bound * (1.0 + rounding)) continue;
      std::optional<AttackResult>& worst = check.exceeded;
      if (!worst || at.reached * worst->bound > worst->reached * at.bound) worst = at;
    }
  }
  return check;
}

}  // namespace periscope::certify
