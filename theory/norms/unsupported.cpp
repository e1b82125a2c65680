#include <fmt/format.h>

#include "theory/norms/norm_law.h"

namespace periscope::theory {
namespace {

/// Returns the norm that makes the stream's entries non-normal before sublayer `end`, or "".
std::string non_normal_cause(const ModelSpec& m, int end) {
  if (m.embedding_norm) return "the embedding norm";
  for (int l = 0; l < end; ++l) {
    if (m.rule(l).norm_b) return fmt::format("norm B of sublayer {}", l);
    if (m.rule(l).norm_c) return fmt::format("norm C of sublayer {}", l);
  }
  return {};
}

std::string unsupported_norm(const ModelSpec& m, std::string_view reader, const std::string& cause) {
  return fmt::format("{} ({}) is pointwise and supported only for normal entries, but {} makes them non-normal", reader,
                     facts_of(m.norm).title, cause);
}

}  // namespace

std::string coordinates_unsupported(const ModelSpec& m) {
  if (law_of(m.norm).coordinates != nullptr) return {};
  return fmt::format("the finite-width chain (T25) follows only Gram matrices, which do not determine the output of {}",
                     facts_of(m.norm).title);
}

std::string norm_unsupported(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  if (!is_pointwise(m.norm)) return {};
  if (spec.scales != nullptr) {
    return fmt::format("{} is pointwise, and unsupported with given weights: their channels differ in size",
                       facts_of(m.norm).title);
  }
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    if (rule.norm_a) {
      if (const std::string cause = non_normal_cause(m, l); !cause.empty()) {
        return unsupported_norm(m, fmt::format("norm A of sublayer {}", l), cause);
      }
    }
    if (!rule.norm_c) continue;
    const std::string cause = non_normal_cause(m, l);
    if (!cause.empty() || rule.norm_b) {
      return unsupported_norm(m, fmt::format("norm C of sublayer {}", l),
                              cause.empty() ? fmt::format("norm B of sublayer {}", l) : cause);
    }
  }
  return {};
}

std::string final_norm_unsupported(const ModelSpec& m) {
  if (!is_pointwise(m.norm) || !m.final_norm) return {};
  const std::string cause = non_normal_cause(m, m.sublayers());
  return cause.empty() ? cause : unsupported_norm(m, "the final norm", cause);
}

void remove_pointwise_tails(const ModelSpec& m, Profile& profile) {
  if (!is_pointwise(m.norm)) return;
  const auto leave_out = [&](Signal signal) {
    profile.curves.erase({Statistic::kurtosis, signal});
    profile.curves.erase({Statistic::maximum, signal});
  };
  bool branches = false;
  bool streams = m.embedding_norm;
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    if (rule.norm_a) leave_out(Signal::A_out);
    branches = branches || rule.norm_b;
    streams = streams || rule.norm_b || rule.norm_c;
  }
  if (branches) leave_out(Signal::B_out);
  if (!streams) return;
  for (const Signal signal : {Signal::x_in, Signal::A_out, Signal::sum, Signal::x_out, Signal::r_out})
    leave_out(signal);
}

}  // namespace periscope::theory
