#include "experiments/engine/run/stream_reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace periscope::stacks {
namespace {

bool grows_with_branch(const ModelSpec& m, const theory::SignalBound& b) {
  if (b.sublayer < 0 || b.sublayer >= m.sublayers() || !m.rule(b.sublayer).norm_b) return false;
  return b.signal == Signal::f_out || (is_gated(m.mlp) && (b.signal == Signal::up || b.signal == Signal::hidden));
}

}  // namespace

bool grows_with_stream(const ModelSpec& m, const theory::SignalBound& b) {
  switch (b.signal) {
    case Signal::embedding:
    case Signal::input: return !m.embedding_norm;
    case Signal::x_out:
    case Signal::sum:
    case Signal::r_out:
    case Signal::B_out: return true;
    case Signal::f_out: return !m.rule(b.sublayer).norm_b;
    default: return false;
  }
}

StreamReach reach_of(const ModelSpec& m, const theory::Certificate& certificate) {
  StreamReach reach;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (grows_with_branch(m, b)) reach.branch = std::max(reach.branch, b.largest);
    if (grows_with_stream(m, b)) reach.stream = std::max(reach.stream, b.largest);
  }
  return reach;
}

std::string weight_words(const theory::WeightEntry& weight, double largest) {
  return fmt::format("{} is {:.6g}, beyond the format's largest number {:.6g}", weight.name, weight.value, largest);
}

double power_of_two_below(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, exponent - 1);
}

}  // namespace periscope::stacks
