#include "theory/first_steps/first_steps.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/base/parallel_for.h"
#include "theory/first_steps/moved_stack.h"

namespace periscope::theory {

std::string_view meaning_of(StepFault fault) {
  constexpr std::array<std::string_view, step_fault_names.size()> meanings{
      "", "what no line in an entry's gradients explains of its update left out",
      "1 in the place of sqrt(2/pi), the mean |z| of a normal number",
      "what W_down reads as Gaussian, without a gate of its own for every channel",
      "what all tokens have in common in a matrix's input left out"};
  return meanings[static_cast<std::size_t>(fault)];
}

namespace {

/// True if everything that the unembedding reads is the output of a norm.
bool ends_in_norms(const ModelSpec& m) {
  const StreamEnds ends = m.ends();
  const Step last = m.step(m.steps() - 1);
  for (std::size_t i = 0; i < last.norm_c.size(); ++i) {
    const bool read = ends.plain[i] != 0.0 || (ends.normed[i] != 0.0 && !m.final_norm);
    if (read && !last.norm_c[i]) return false;
  }
  return true;
}

/// True if some stream, or something that a module adds to it, is the output of a norm after the module.
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
         std::isfinite(reading.loss.value.front()) && std::isfinite(reading.kept_share);
}

/// Clamps at 0: with few samples a mean square can be negative after noise was subtracted from it.
Curve not_negative(Curve square) {
  // Not std::max, which may lose NaN.
  for (double& x : square.value) x = x < 0.0 ? 0.0 : x;
  return square;
}

/// Means over chains, with standard errors, of rows of numbers.
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
  if (spec.scales != nullptr) return "the first steps are those of random weights, and these are given";
  if (!m.unembedding) return "a stack without unembedding has no loss of tokens";
  if (m.gamma == 0.0) return "the first steps of norms with gains of 0, which only training moves, are not predicted";
  if (!ends_in_norms(m))
    return "without a norm before the unembedding gradients go along the stream, which is not predicted";
  if (m.head.soft_cap > 0.0) return "the first steps behind a soft cap of the logits are not predicted";
  if (is_pointwise(m.norm)) return "the first steps behind norms that do not divide are not predicted";
  if (m.projects_embedding() || m.embedding.positions > 0 || m.embedding.token_types > 0 || m.head.transform) {
    return "the first steps of a stack with tables besides its embedding are not predicted";
  }
  for (int s = 0; s < m.steps(); ++s) {
    for (const Branch& branch : m.step(s).branches) {
      if (branch.channel_scale) return "the first steps of learned factors for every channel are not predicted";
    }
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    if (m.v_norm_at(layer) || m.gates_at(layer) > 0 || m.inner_norm_at(2 * layer) || m.inner_norm_at(2 * layer + 1)) {
      return "the first steps of modules with norms or gates inside are not predicted";
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
  const auto chains = static_cast<std::size_t>(options.replicates);
  std::vector<std::vector<MovedReading>> readings(chains);
  PredictionProgress share(options.on_progress);
  share.expect(static_cast<double>(chains) * spec.model.steps() *
               static_cast<double>(input.optimizer.rates.size() + 1));
  parallel_for(chains, [&](std::size_t c) {
    const TrainingTokens tokens = tokens_of(spec, input, static_cast<int>(c % input.runs.size()));
    const ChainDraws draws{.neurons = options.neurons, .seed = options.seed, .replicate = c};
    readings[c] =
        moved_stack(spec, tokens, input.optimizer, draws, options.fault, [&](double work) { share.add(work); });
  });
  double far = 0.0;  // sum of the rates so far
  for (std::size_t r = 0; r < readings.front().size(); ++r) {
    /// `read` takes a chain's readings now and before training.
    const auto mean = [&](const auto& read) {
      std::vector<std::vector<double>> rows;
      for (const auto& chain : readings) rows.push_back(read(chain[r], chain.front()));
      return mean_of(rows);
    };
    const auto mean_now = [&](std::vector<double> MovedReading::*row) {
      return mean([&](const MovedReading& now, const MovedReading&) { return now.*row; });
    };
    StepReading reading;
    reading.second_moment = mean_now(&MovedReading::second_moment);
    reading.coherent = mean_now(&MovedReading::coherent);
    reading.branch_cosine = mean_now(&MovedReading::branch_cosine);
    reading.branch_second_moment = not_negative(mean_now(&MovedReading::branch_second_moment));
    reading.loss = mean([](const MovedReading& now, const MovedReading&) { return std::vector{now.loss}; });
    reading.loss_change =
        mean([](const MovedReading& now, const MovedReading& before) { return std::vector{now.loss - before.loss}; });
    reading.change = mean([](const MovedReading& now, const MovedReading& before) {
      std::vector<double> moved = now.second_moment;
      std::ranges::transform(moved, before.second_moment, moved.begin(), std::minus());
      return moved;
    });
    for (const auto& entry : readings.front()[r].update_square) {
      const Weight weight = entry.first;
      reading.update[weight] = not_negative(
          mean([&](const MovedReading& now, const MovedReading&) { return now.update_square.at(weight); }));
    }
    const std::vector<double> shares = mean_now(&MovedReading::kept).value;
    // NaN takes precedence; min_element would skip it.
    const auto missing = std::ranges::find_if(shares, [](double one) { return std::isnan(one); });
    const auto least = missing != shares.end() ? missing : std::ranges::min_element(shares);
    reading.kept_share = *least;
    reading.turned_sublayer = static_cast<int>(least - shares.begin());
    const double turned = std::pow(1.0 - reading.kept_share, 2);
    reading.left_out = r > 1 ? 2.0 * turned : r == 1 ? turned : 0.0;
    if (r > 0) far += input.optimizer.rates[r - 1];
    reading.gains = has_norms_after_modules(spec) || spec.model.embedding_norm ? 2.0 * far : 0.0;
    result.steps.push_back(std::move(reading));
  }
  for (std::size_t r = 1; r < result.steps.size(); ++r) {
    const StepReading& reading = result.steps[r];
    if (!is_finite(reading)) {
      result.stopped_by = fmt::format("a second moment or the loss at step {} is no number", r);
      break;
    }
    if (reading.left_out > most_left_out) {
      result.stopped_by = fmt::format(
          "what sublayer {} reads has turned, its correlation with what it was is {:.2f}; products of two such "
          "changes, which theory leaves out, are an estimated {:.0f} % of the change",
          reading.turned_sublayer, reading.kept_share, 100.0 * reading.left_out);
      break;
    }
    result.holds_until = static_cast<int>(r);
  }
  return result;
}

FirstStepsBytes first_steps_bytes(const StackSpec& spec, const FirstStepsSizes& sizes,
                                  const FirstStepsOptions& options) {
  const ModelSpec& m = spec.model;
  const ChainDraws draws{.neurons = options.neurons};
  const double trained = sizes.steps * sizes.batch;  // tokens
  const double all = trained + sizes.held_out;
  // Drawn rows of a layer's matrices that read the stream, and drawn columns of those that write to it.
  const double values = 1.0 * draws.groups(m) * m.head_dim;
  const double queries = values * m.heads / m.kv_heads;
  const double hidden = draws.hidden(m);
  const double reading = queries + 2.0 * values + (is_gated(m.mlp) ? 2.0 : 1.0) * hidden;
  const double writing = queries + hidden;
  const double kernels = 2.0 * m.layers * trained * trained + 12.0 * all * all;
  const double signals = m.width * (4.0 * all + 10.0 * trained) + trained * (2.0 * reading + writing);
  const double entries = (sizes.steps + 1.0) * m.width * (reading + writing);
  // Logits of a batch and of the held-out tokens, gradients of all batches, the unembedding, and gradients of its
  // entries at every step.
  const double classes = m.vocab * (trained + 4.0 * (sizes.batch + sizes.held_out) + (sizes.steps + 5.0) * m.width);
  const double at_once = sizeof(float) * std::min(omp_get_max_threads(), options.replicates);
  return {
      .kernels = at_once * kernels, .samples = at_once * m.layers * (signals + entries), .classes = at_once * classes};
}

}  // namespace periscope::theory
