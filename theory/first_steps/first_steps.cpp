#include "theory/first_steps/first_steps.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/base/parallel_for.h"
#include "theory/first_steps/trained_stack.h"

namespace periscope::theory {

std::string_view meaning_of(StepFault fault) {
  constexpr std::array<std::string_view, step_fault_names.size()> meanings{
      "", "the part of an entry's update that is not linear in its gradients is omitted",
      "1 instead of sqrt(2/pi), the mean of |z| for a normal z",
      "the input of W_down is Gaussian, without a separate gate for every channel",
      "the part of a matrix's input that all tokens share is omitted"};
  return meanings[static_cast<std::size_t>(fault)];
}

namespace {

/// Returns true if the input of the unembedding consists only of norm outputs.
bool ends_in_norms(const ModelSpec& m) {
  const StreamEnds ends = m.ends();
  const Step last = m.step(m.steps() - 1);
  for (std::size_t i = 0; i < last.norm_c.size(); ++i) {
    const bool read = ends.plain[i] != 0.0 || (ends.normed[i] != 0.0 && !m.final_norm);
    if (read && !last.norm_c[i]) return false;
  }
  return true;
}

/// Returns true if any step has a norm B or C.
bool has_norms_after_modules(const StackSpec& spec) {
  for (int s = 0; s < spec.model.steps(); ++s) {
    const Step step = spec.model.step(s);
    if (std::ranges::find(step.norm_c, true) != step.norm_c.end()) return true;
    if (std::ranges::any_of(step.branches, [](const Branch& b) { return b.norm_b; })) return true;
  }
  return false;
}

bool is_finite(const StepReading& reading) {
  return std::ranges::all_of(reading.second_moment.value, [](double x) { return std::isfinite(x); }) &&
         std::isfinite(reading.loss.value.front()) && std::isfinite(reading.input_correlation);
}

/// Clamps at 0: with few samples a mean square can become negative when noise is subtracted.
Curve clamped_at_zero(Curve square) {
  // std::max could drop NaN.
  for (double& x : square.value) x = x < 0.0 ? 0.0 : x;
  return square;
}

/// Returns column means with standard errors; `rows` holds one row per replicate.
Curve mean_of(const std::vector<std::vector<double>>& rows) {
  Curve curve;
  const auto n = static_cast<double>(rows.size());
  for (std::size_t i = 0; i < rows.front().size(); ++i) {
    double sum = 0.0;
    for (const auto& row : rows) sum += row[i];
    const double mean = sum / n;
    double square = 0.0;
    for (const auto& row : rows) square += (row[i] - mean) * (row[i] - mean);
    curve.value.push_back(mean);
    curve.standard_error.push_back(rows.size() > 1 ? std::sqrt(square / (n * (n - 1.0))) : 0.0);
  }
  return curve;
}

}  // namespace

std::string first_steps_unsupported(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  if (spec.scales != nullptr) return "first steps are unsupported for given weights";
  if (!m.unembedding) return "first steps are unsupported without an unembedding: there is no token loss";
  if (m.gamma == 0.0) return "first steps are unsupported for norms with gains of 0";
  if (!ends_in_norms(m))
    return "first steps are unsupported without a norm before the unembedding: gradients align with the stream";
  if (m.head.soft_cap > 0.0) return "first steps are unsupported for a soft cap of the logits";
  if (m.head.scale != 1.0) return "first steps are unsupported for scaled logits";
  if (is_pointwise(m.norm)) return "first steps are unsupported for pointwise norms";
  if (m.projects_embedding() || m.embedding.positions > 0 || m.embedding.token_types > 0 || m.head.transform) {
    return "first steps are unsupported for position or type tables, embedding projections and head transforms";
  }
  for (int s = 0; s < m.steps(); ++s) {
    for (const Branch& branch : m.step(s).branches) {
      if (branch.channel_scale) return "first steps are unsupported for learned per-channel branch factors";
    }
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    if (m.v_norm_at(layer) || m.gates_at(layer) > 0 || m.inner_norm_at(2 * layer) || m.inner_norm_at(2 * layer + 1)) {
      return "first steps are unsupported for norms or gates inside modules";
    }
  }
  return "";
}

TrainingTokens tokens_of(const StackSpec& spec, const FirstStepsInput& input, int run) {
  const TrainingBatches& batches = input.runs[static_cast<std::size_t>(run)];
  TrainingTokens tokens{.ids = {}, .labels = {}, .sequence = spec.input.tokens};
  for (std::size_t s = 0; s < input.optimizer.rates.size(); ++s) {
    tokens.ids.insert(tokens.ids.end(), batches.inputs[s].begin(), batches.inputs[s].end());
    tokens.labels.insert(tokens.labels.end(), batches.labels[s].begin(), batches.labels[s].end());
  }
  tokens.steps = static_cast<Index>(input.optimizer.rates.size());
  tokens.batch = static_cast<Index>(batches.inputs.front().size());
  tokens.ids.insert(tokens.ids.end(), input.ids.begin(), input.ids.end());
  tokens.labels.insert(tokens.labels.end(), input.labels.begin(), input.labels.end());
  return tokens;
}

FirstSteps predict_first_steps(const StackSpec& spec, const FirstStepsInput& input, const FirstStepsOptions& options) {
  FirstSteps result;
  result.unsupported = first_steps_unsupported(spec);
  if (!result.unsupported.empty()) return result;
  const auto replicates = static_cast<std::size_t>(options.replicates);
  std::vector<std::vector<ReplicateReading>> readings(replicates);
  PredictionProgress progress(options.on_progress);
  progress.expect(static_cast<double>(replicates) * spec.model.steps() *
                  static_cast<double>(input.optimizer.rates.size() + 1));
  parallel_for(replicates, [&](std::size_t c) {
    const TrainingTokens tokens = tokens_of(spec, input, static_cast<int>(c % input.runs.size()));
    const ReplicateDraws draws{.neurons = options.neurons, .seed = options.seed, .replicate = c};
    readings[c] =
        trained_stack(spec, tokens, input.optimizer, draws, options.fault, [&](double work) { progress.add(work); });
  });
  double rate_sum = 0.0;
  for (std::size_t r = 0; r < readings.front().size(); ++r) {
    /// `read` takes the current reading of a replicate and its reading before training.
    const auto mean = [&](const auto& read) {
      std::vector<std::vector<double>> rows;
      for (const auto& replicate : readings) rows.push_back(read(replicate[r], replicate.front()));
      return mean_of(rows);
    };
    const auto mean_now = [&](std::vector<double> ReplicateReading::*row) {
      return mean([&](const ReplicateReading& now, const ReplicateReading&) { return now.*row; });
    };
    StepReading reading;
    reading.second_moment = mean_now(&ReplicateReading::second_moment);
    reading.coherent = mean_now(&ReplicateReading::coherent);
    reading.branch_cosine = mean_now(&ReplicateReading::branch_cosine);
    reading.branch_second_moment = clamped_at_zero(mean_now(&ReplicateReading::branch_second_moment));
    reading.loss = mean([](const ReplicateReading& now, const ReplicateReading&) { return std::vector{now.loss}; });
    reading.loss_change = mean([](const ReplicateReading& now, const ReplicateReading& before) {
      return std::vector{now.loss - before.loss};
    });
    reading.change = mean([](const ReplicateReading& now, const ReplicateReading& before) {
      std::vector<double> moved = now.second_moment;
      std::ranges::transform(moved, before.second_moment, moved.begin(), std::minus());
      return moved;
    });
    for (const auto& entry : readings.front()[r].update_square) {
      const Weight weight = entry.first;
      reading.update[weight] = clamped_at_zero(
          mean([&](const ReplicateReading& now, const ReplicateReading&) { return now.update_square.at(weight); }));
    }
    const std::vector<double> correlations = mean_now(&ReplicateReading::input_correlation).value;
    // NaN takes precedence; min_element would skip it.
    const auto missing = std::ranges::find_if(correlations, [](double one) { return std::isnan(one); });
    const auto least = missing != correlations.end() ? missing : std::ranges::min_element(correlations);
    reading.input_correlation = *least;
    reading.least_correlated = static_cast<int>(least - correlations.begin());
    const double squared_change = std::pow(1.0 - reading.input_correlation, 2);
    reading.neglected = r > 1 ? 2.0 * squared_change : r == 1 ? squared_change : 0.0;
    if (r > 0) rate_sum += input.optimizer.rates[r - 1];
    reading.gain_drift = has_norms_after_modules(spec) || spec.model.embedding_norm ? 2.0 * rate_sum : 0.0;
    result.steps.push_back(std::move(reading));
  }
  for (std::size_t r = 1; r < result.steps.size(); ++r) {
    const StepReading& reading = result.steps[r];
    if (!is_finite(reading)) {
      result.stopped_by = fmt::format("a second moment or the loss is not finite at step {}", r);
      break;
    }
    if (reading.neglected > max_neglected) {
      result.stopped_by = fmt::format(
          "the input of sublayer {} has correlation {:.2f} with its value before training; neglected second-order "
          "terms are an estimated {:.0f} % of the change",
          reading.least_correlated, reading.input_correlation, 100.0 * reading.neglected);
      break;
    }
    result.holds_until = static_cast<int>(r);
  }
  return result;
}

FirstStepsBytes first_steps_bytes(const StackSpec& spec, const FirstStepsSizes& sizes,
                                  const FirstStepsOptions& options) {
  const ModelSpec& m = spec.model;
  const ReplicateDraws draws{.neurons = options.neurons};
  const double trained = sizes.steps * sizes.batch;  // tokens
  const double all = trained + sizes.held_out;
  // Per layer, rows are sampled from matrices that read the stream, columns from matrices that write to it.
  const double values = 1.0 * draws.groups(m, 0) * m.head_dim_at(0);
  const double queries = values * m.heads / m.kv_heads_at(0);
  const double hidden = draws.hidden(m);
  const double reading = queries + 2.0 * values + (is_gated(m.mlp) ? 2.0 : 1.0) * hidden;
  const double writing = queries + hidden;
  const double kernels = 2.0 * m.layers * trained * trained + 12.0 * all * all;
  const double signals = m.width * (4.0 * all + 10.0 * trained) + trained * (2.0 * reading + writing);
  const double entries = (sizes.steps + 1.0) * m.width * (reading + writing);
  // Logits of a batch and of held-out tokens, gradients of all batches, and the unembedding with its gradients.
  const double classes = m.vocab * (trained + 4.0 * (sizes.batch + sizes.held_out) + (sizes.steps + 5.0) * m.width);
  const double at_once = sizeof(float) * std::min(omp_get_max_threads(), options.replicates);
  return {
      .kernels = at_once * kernels, .samples = at_once * m.layers * (signals + entries), .classes = at_once * classes};
}

}  // namespace periscope::theory
