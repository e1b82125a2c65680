#include "theory/predict/finite_width_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/parallel_for.h"
#include "theory/norms/norm_law.h"
#include "theory/predict/pattern_level.h"
#include "theory/width/gram_chain.h"

namespace periscope::theory {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

constexpr int min_replicates = 32;
constexpr int max_per_seed = 16;  ///< replicates per seed
constexpr int min_per_seed = 4;
constexpr double operations_of_seconds = 4e11;
constexpr double operations_of_minutes = 4e13;
constexpr int min_of_minutes = 8;  ///< minimum number of replicates if the usual minimum exceeds operations_of_minutes

/// Replicates per batch, to limit memory.
constexpr int replicates_per_batch = 64;

/// Returns the first depth at which the stream is not finite, or −1.
int first_non_finite_depth(const Profile& profile) {
  const std::vector<double>& q = profile.find(Statistic::second_moment, Signal::x_out)->value;
  const auto it = std::ranges::find_if(q, [](double v) { return !std::isfinite(v); });
  return it == q.end() ? -1 : static_cast<int>(it - q.begin());
}

int wanted_replicates(const StackSpec& spec, int seeds) {
  const double each = chain_operations(spec);
  const double wanted = std::max<double>(min_replicates, min_per_seed * seeds);
  const double precise = std::max<double>(wanted, max_per_seed * seeds);
  const double affordable = std::max(wanted, std::min(precise, operations_of_seconds / each));
  return static_cast<int>(std::min(affordable, std::max<double>(min_of_minutes, operations_of_minutes / each)));
}

/// Rounds `wanted` up to a multiple of `sequences`.
int round_up(int wanted, int sequences) { return std::max(1, (wanted + sequences - 1) / sequences) * sequences; }

}  // namespace

double chain_operations(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  const double tokens = spec.input.tokens;
  const double frame = std::min<double>(tokens + 1, m.width) * (0.5 + 0.5 * m.ends().streams());
  const double normal = 60.0;    // cost of a normal number, in operations of a matrix product
  const double in_double = 2.0;  // cost of an f64 operation, in f32 operations
  const double features = 2.0 * (4.0 * tokens * tokens * frame + tokens * tokens * tokens);
  double all = 0.0;
  for (int layer = 0; layer < m.layers; ++layer) {
    const int query = m.query_width(layer);
    const double drawn =
        query + 2.0 * m.key_width(layer) + m.gates_at(layer) + (is_gated(m.mlp) ? 2.0 : 1.0) * m.mlp_width;
    const double products = 2.0 * tokens * frame * drawn + tokens * tokens * (6.0 * query + m.mlp_width);
    all += products + features + normal * frame * (drawn + 2.0 * tokens);
  }
  return in_double * all;
}

int replicates_for(const StackSpec& spec, int seeds, int sequences, double operations) {
  const int count_wanted = round_up(wanted_replicates(spec, seeds), sequences);
  const double affordable = std::max(operations, operations_of_seconds) / chain_operations(spec);
  if (count_wanted <= affordable) return count_wanted;
  const int count = static_cast<int>(affordable) / sequences * sequences;
  return count < min_of_minutes ? 0 : count;
}

void predict_at_width(const StackSpec& spec, const std::vector<std::vector<int>>& ids,
                      const FiniteWidthOptions& options, Prediction& prediction) {
  if (!prediction.unsupported.empty()) return;
  const auto leave_out = [&](const std::string& reason) {
    prediction.left_out += (prediction.left_out.empty() ? "" : "; ") + reason;
  };
  if (const std::string reason = coordinates_unsupported(spec.model); !reason.empty()) {
    leave_out(reason + ": signals are predicted at infinite width, with a tolerated bias");
    return;
  }
  const std::vector<std::vector<int>> sequences = ids.empty() ? std::vector<std::vector<int>>(1) : ids;
  const auto sequence_count = static_cast<int>(sequences.size());
  const int unlimited = replicates_for(spec, options.seeds, sequence_count);
  const int replicates = options.replicates > 0
                             ? round_up(options.replicates, sequence_count)
                             : replicates_for(spec, options.seeds, sequence_count, options.operations);
  if (options.replicates == 0 && replicates < unlimited) {
    const double factor = unlimited * chain_operations(spec) / options.operations;
    leave_out(
        fmt::format("{} replicates of the finite-width chain (T25) would cost {:.2g} times the measurement: {}; set "
                    "theory.replicates for more",
                    unlimited, factor,
                    replicates > 0 ? fmt::format("{} were run", replicates)
                                   : "signals are predicted at infinite width, with a tolerated bias"));
  }
  if (replicates == 0) return;
  const int per_sequence = replicates / sequence_count;
  // A single entry if each sequence has only one replicate.
  std::vector<ProfileMoments> of_sequence(per_sequence > 1 ? sequences.size() : 1);
  std::vector<Profile> readings(static_cast<std::size_t>(replicates_per_batch));
  PredictionProgress progress(options.on_progress);
  progress.expect(static_cast<double>(replicates) * spec.model.sublayers());
  for (int first = 0; first < replicates; first += replicates_per_batch) {
    const int end = std::min(first + replicates_per_batch, replicates);
    parallel_for(end - first, [&](int i) {
      readings[static_cast<std::size_t>(i)] =
          gram_chain(spec, sequences[static_cast<std::size_t>((first + i) / per_sequence)],
                     {.seed = options.seed,
                      .index = static_cast<std::uint64_t>(first + i),
                      .fault = options.fault,
                      .on_work = [&progress](double sublayers) { progress.add(sublayers); }});
    });
    for (int i = first; i < end; ++i) {
      const Profile& reading = readings[static_cast<std::size_t>(i - first)];
      if (const int depth = first_non_finite_depth(reading); depth >= 0) {
        prediction.unsupported =
            fmt::format("a replicate of the finite-width chain (T25) is not finite at depth {}", depth);
        prediction.profile = {};
        prediction.replicate_profiles = {};
        return;
      }
      prediction.replicate_profiles.push_back(reading);
      of_sequence[per_sequence > 1 ? static_cast<std::size_t>(i / per_sequence) : 0].add(reading);
    }
  }
  prediction.exact_at_width = true;
  prediction.replicates_per_sequence = per_sequence;
  prediction.finite_width_replicates = replicates;
  prediction.replicates_given = options.replicates > 0;
  prediction.finite_width_degrees = per_sequence > 1 ? replicates - sequence_count : replicates - 1;
  prediction.limit = prediction.profile;
  const double degrees = prediction.finite_width_degrees;
  for (const auto& [key, curve] : of_sequence.front().sums().curves) {
    Curve& mean = prediction.profile.curves[key];
    Curve& spread = prediction.spread.curves[key];
    mean = {};
    for (std::size_t j = 0; j < curve.value.size(); ++j) {
      double sum = 0.0;
      double squares = 0.0;  // sum of squared deviations from the mean of each sequence
      for (const ProfileMoments& sequence : of_sequence) {
        const Curve& sums = sequence.sums().curves.at(key);
        sum += sums.value[j];
        squares += sums.standard_error[j];
      }
      const double deviation = degrees > 0 ? std::sqrt(squares / degrees) : nan;
      mean.value.push_back(sum / static_cast<double>(of_sequence.size()));
      mean.standard_error.push_back(deviation / std::sqrt(replicates));
      spread.value.push_back(deviation);
      spread.standard_error.push_back(degrees > 0 ? deviation / std::sqrt(2.0 * degrees) : nan);  // assumes normality
    }
  }
}

}  // namespace periscope::theory
