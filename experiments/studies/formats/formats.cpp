#include "experiments/studies/formats/formats.h"

#include <algorithm>
#include <deque>

#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/run/weight_scales_of.h"
#include "experiments/engine/settings/stack_rules.h"
#include "sim/backends.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/seed_average.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"
#include "sim/model/stack.h"
#include "sim/numerics/tolerances.h"
#include "theory/certify/certificate.h"

namespace periscope::formats {
namespace {

void pass_through(const StackContext& context, const Tensor& input, const Tokens& tokens, const Hooks& hooks) {
  if (tokens.labels.empty()) {
    (void)logits_forward(context, stack_forward(context, input, hooks).output, hooks);
  } else {
    const Tensor gradient = backpropagate(context, input, tokens.labels, hooks).gradient;
    if (context.model.projects_embedding()) embedding_backward(context, tokens.ids, gradient, hooks);
  }
}

/// Returns the rows of all tables that the tokens read.
PassInput tables_of(const StackContext& context, const std::vector<int>& ids) {
  PassInput input;
  if (ids.empty()) return input;
  const EmbeddingSpec& e = context.model.embedding;
  const auto add = [&](Weight table, double factor, Signal signal) {
    const std::vector<int> rows = stacks::rows_in_use(e, table, ids);
    input.tables.push_back({context.ops.to_host(context.weights.rows(context.ops, table, rows)), factor, signal});
  };
  add(Weight::embedding, e.scale, context.model.projects_embedding() ? Signal::embedding : Signal::input);
  if (e.positions > 0) add(Weight::positions, 1.0, Signal::input);
  if (e.token_types > 0) add(Weight::token_types, 1.0, Signal::input);
  return input;
}

void record_overflow(Overflow& overflow, const FirstOverflow& seen, bool first_seed, bool backward) {
  if (!seen.found) return;
  const std::pair at(seen.sublayer, seen.signal);
  const std::pair first(overflow.first.sublayer, overflow.first.signal);
  if (overflow.seeds++ == 0 || (backward ? at > first : at < first)) overflow.first = seen;
  overflow.of_first_seed = overflow.of_first_seed || first_seed;
}

void add_each(std::vector<RunningMoments>& all, const std::vector<double>& values) {
  all.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) all[i].add(values[i]);
}

/// Returns whether a certificate for storing everything in `format` also covers a run with the formats `choice`: some
/// part is stored in `format` without a scale, and no part has a narrower range.
bool certificate_applies(const FormatChoice& choice, const TensorFormat& format) {
  bool stored = false;
  if (choice.backward_only) return false;
  for (const Quantization& q : choice.parts) {
    stored = stored || (q.format.name == format.name && !q.has_scale());
    if (q.stochastic || q.format.is_integer() || q.format.floating.largest < format.floating.largest) return false;
  }
  return stored;
}

/// Returns the largest relative effect of one rounding of the stream on its mean square. A floating-point entry changes
/// by at most a relative u, an integer by half a step. With Q the largest integer, half a step is 2/Q of the rms if the
/// largest entry is four times the rms. Stochastic rounding doubles these changes.
double one_rounding(const Quantization& q) {
  const double nearest = q.format.is_integer() ? 2.0 / q.format.largest_integer : q.format.floating.unit_roundoff();
  const double u = q.stochastic ? 2.0 * nearest : nearest;
  return 2.0 * u + u * u;
}

/// Returns the tests of one stack's relative drifts in one format, at every depth.
std::vector<judge::Test> drift_tests(const FormatsStack& stack, const FormatResult& format,
                                     const config::AgreementOptions& options) {
  std::vector<judge::Test> tests;
  for (const auto& [statistic, measure] : {std::pair(Statistic::second_moment, Measure::second_moment_drift),
                                           std::pair(Statistic::variance, Measure::variance_drift)}) {
    for (int depth = 0; depth <= stack.spec.model.sublayers(); ++depth) {
      const RunningMoments& drift =
          format.variants.front().numbers.at({stream_site, measure})[static_cast<std::size_t>(depth)];
      // If a norm fixes the statistic, the spread is 0. The minimum standard error is therefore f64's rounding error.
      tests.push_back({.statistic = statistic,
                       .index = depth,
                       .measured = {drift.mean(), std::max(drift.standard_error(), fp64.spacing_at_1())},
                       .tolerated_bias = format.stream_rounding + forward_tolerance(fp32),
                       .limit = judge::limit_of(options.power_limits, statistic),
                       .seeds = stack.seeds});
    }
  }
  return tests;
}

}  // namespace

void certify_formats(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                     const WeightSource& weights, const config::EntryNames& names, FormatsStack& stack,
                     const stacks::Progress& progress) {
  const StackSpec& spec = stack.spec;
  const config::TheoryParameters parameters(ops, spec.model, weights, names);
  const theory::InputDomain domain{.tokens = spec.input.kind != InputKind::gaussian,
                                   .largest = spec.model.embedding_norm ? theory::infinity : stack.largest_input};
  const Arithmetic kind = config.accumulates_in_format ? Arithmetic::pure : Arithmetic::mixed;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    if (!certificate_applies(format_choice_for(config, formats[f], 0), formats[f])) continue;
    progress.throw_if_stop_requested();
    const theory::Certificate certificate =
        theory::certify(spec.model, parameters, domain, run_arithmetic(kind, formats[f].floating), spec.input.tokens);
    const theory::Verdict verdict = theory::verdict(certificate, std::nullopt);
    stack.formats[f + 1].certificate = {verdict.certified, verdict.certified ? theory::SignalBound() : *verdict.first};
  }
}

stacks::MemoryEstimate passes_memory(const StackSpec& spec, config::RunOptions run, int seeds, int threads) {
  run.dtype = DType::f64;
  stacks::MemoryEstimate memory = stacks::reading_memory(spec, run, seeds, threads, run.backward ? 2.0 : 1.0);
  double entries = 0.0;
  double largest = 0.0;
  for (const ParameterId& id : matrices_of(spec)) {
    if (is_table(id.weight)) continue;
    const WeightShape shape = shape_of(spec.model, id.weight, id.layer());
    const double size = static_cast<double>(shape.fan_in) * static_cast<double>(shape.fan_out);
    entries += size;
    largest = std::max(largest, size);
  }
  // A matrix, its rounded copy, and the entries of both as doubles.
  const double bytes = 28.0 * largest + (run.backward ? 8.0 * entries : 0.0);
  memory.add(bytes * (stacks::one_seed_per_thread(spec, run, seeds, threads) ? threads : 1.0), "model.width");
  return memory;
}

SeedReading read_passes(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                        const StackSpec& spec, const WeightSource& weights, const Tokens& tokens, std::uint64_t seed) {
  const bool backward = !tokens.labels.empty();
  const auto input_of = [&](const StackContext& context) {
    return tokens.ids.empty() ? gaussian_input(ops, spec, DType::f64, seed) : embedding_forward(context, tokens.ids);
  };
  std::vector<FormatChoice> choices;
  for (const TensorFormat& format : formats) choices.push_back(format_choice_for(config, format, seed));
  SeedReading reading;
  for (int variant = 0; variant < (config.massive == 1.0 ? 1 : 2); ++variant) {
    const auto planted = [&](const Tensor& x) {
      if (variant == 0) return x;
      std::vector<double> values = ops.to_host(x);
      for (Tensor::Index i = 0; i < x.size(); ++i) {
        if (i % x.cols() < config.massive_features) values[static_cast<std::size_t>(i)] *= config.massive;
      }
      return ops.from_host(x.rows(), x.cols(), x.dtype(), values);
    };
    const ComparedWeights compared(weights, spec, choices);
    const StackContext exact{.ops = ops, .model = spec.model, .weights = compared};
    const Tensor input = planted(input_of(exact));
    std::vector<PassReading>& passes = reading.emplace_back();
    DeviationProbe truth(ops, spec.model);
    GradientProbe gradients(exact);
    GradientNoise exact_gradients(ops, spec.model);
    pass_through(exact, input, tokens, {.recorders = {&truth}, .gradients = {&gradients, &exact_gradients}});
    passes.push_back(truth.take());
    Profile of_weights;
    gradients.take_into(of_weights);
    PassInput read = tables_of(exact, tokens.ids);
    if (variant == 1) read.massive = config.massive;
    read.massive_features = config.massive_features;
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const FormatChoice& choice = choices[f];
      const FormatWeights rounded(weights, choice);
      const StackContext context{.ops = ops, .model = spec.model, .weights = rounded};
      FormatSignals signals(ops, spec.model, choice);
      DeviationProbe probe(ops, spec.model, &truth, choice.loss_scale);
      GradientNoise noise(ops, spec.model, &exact_gradients, choice.loss_scale);
      // Gaussian input is rounded here, from f64. Token input is a sum of rounded table rows, which the pass rounds.
      const Tensor start = tokens.ids.empty() ? signals.replaced({-1, Signal::input, Pass::recomputation}, input)
                                              : planted(input_of(context));
      pass_through(context, start, tokens, {.recorders = {&probe}, .gradients = {&noise}, .replacers = {&signals}});
      PassReading& pass = passes.emplace_back(probe.take());
      pass.products = compared.in_format(f);
      noise.add_to(pass.products);
      pass.layer_gradients = noise.of_layers();
      if (backward && config::has_single_additions(spec.model)) {
        pass.predicted = predicted_sqnr(ops, spec, truth, of_weights, choice, read);
      }
    }
  }
  return reading;
}

SeedReading read_seed(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                      const StackSpec& spec, std::uint64_t seed) {
  const GeneratedWeights weights(ops, spec, DType::f64, seed);
  Tokens tokens{.ids = stacks::token_ids(spec, seed), .labels = {}};
  if (config.run.backward) tokens.labels = stacks::label_ids(spec, seed);
  return read_passes(config, formats, ops, spec, weights, tokens, seed);
}

FormatsStack empty_stack(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const StackSpec& spec) {
  FormatsStack stack{.spec = spec, .prediction = {}, .formats = {}};
  stack.formats.emplace_back().name = fp64.name;
  for (const TensorFormat& format : formats) {
    FormatResult& added = stack.formats.emplace_back();
    added.name = format.name;
    added.stream_rounding = one_rounding(format_choice_for(config, format, 0).of(Part::stream));
  }
  return stack;
}

void add(FormatsStack& stack, const SeedReading& reading) {
  const bool first_seed = stack.seeds++ == 0;
  for (std::size_t f = 0; f < stack.formats.size(); ++f) {
    FormatResult& format = stack.formats[f];
    format.variants.resize(reading.size());
    for (std::size_t v = 0; v < reading.size(); ++v) {
      const PassReading& pass = reading[v][f];
      Variant& variant = format.variants[v];
      for (const auto& [site, values] : pass.numbers) add_each(variant.numbers[site], values);
      for (const auto& [product, values] : pass.products) add_each(variant.products[product], values);
      add_each(variant.predicted, pass.predicted);
      add_each(variant.layer_gradients, pass.layer_gradients);
      record_overflow(variant.forward, pass.forward, first_seed, false);
      record_overflow(variant.backward, pass.backward, first_seed, true);
      const double input = pass.numbers.at({stream_site, Measure::maximum}).front();
      if (f == 0) stack.largest_input = std::max(stack.largest_input, input);
    }
    const PassReading& plain = reading.front()[f];
    Profile& law = format.law_profiles.emplace_back();
    for (const auto& [statistic, measure] : {std::pair(Statistic::second_moment, Measure::second_moment),
                                             std::pair(Statistic::variance, Measure::variance)}) {
      const std::vector<double>& places = plain.numbers.at({stream_site, measure});
      law.curves[{statistic, Signal::x_out}].value.assign(places.begin(), places.end() - 1);
    }
    if (reading.size() == 1 || f == 0) continue;
    const auto cost = [&](Signal signal, std::size_t place) {
      const std::pair at{Site{Pass::forward, signal}, Measure::sqnr};
      return plain.numbers.at(at)[place] - reading[1][f].numbers.at(at)[place];
    };
    const auto sublayers = static_cast<std::size_t>(stack.spec.model.sublayers());
    double branches = 0.0;
    for (std::size_t place = 1; place <= sublayers; ++place) branches += cost(Signal::f_out, place);
    format.branch_cost.add(branches / static_cast<double>(sublayers));
    format.stream_cost.add(cost(Signal::x_out, sublayers));
  }
}

std::vector<FormatsStack> run(const FormatsConfig& config, stacks::Progress& progress) {
  const std::vector<TensorFormat> formats = checked_formats(config);
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  std::vector<FormatsStack> stacks;
  config::Config forward = config.without_gradients();
  forward.run.paired = true;
  forward.theory.finite_width = true;  // exact at the stack's width: no tolerated bias
  progress.begin("formats", stacks::tasks_of_stacks(forward, true, true));
  const std::vector<stacks::StackResult> predicted = stacks::predict_stacks(forward, true, progress);
  for (const stacks::StackResult& prediction : predicted) {
    FormatsStack stack = empty_stack(config, formats, prediction.spec);
    stack.prediction = prediction.prediction;
    const StackSpec& spec = stack.spec;
    stacks::over_cached_seeds(
        "formats", spec, config.run, config.run.seeds, config::short_label(spec), progress,
        [&](std::uint64_t seed) { return read_seed(config, formats, *ops, spec, seed); },
        [&](const SeedReading& reading) { add(stack, reading); });
    if (config.certificates) {
      const GeneratedWeights weights(*ops, spec, DType::f64, config.run.seed);
      certify_formats(config, formats, *ops, weights, {}, stack, progress);
    }
    stacks.push_back(std::move(stack));
  }
  judge_formats(stacks, config.agreement);
  return stacks;
}

void judge_formats(std::vector<FormatsStack>& stacks, const config::AgreementOptions& options) {
  std::deque<judge::Measurement> measured;  // a deque, because `comparisons` refers to its elements
  std::vector<judge::Comparison> comparisons;
  for (const FormatsStack& stack : stacks) {
    for (const FormatResult& format : stack.formats) {
      SeedAverage law;
      for (const Profile& seed : format.law_profiles) law.add({.profile = seed, .top = {}});
      measured.push_back({.profile = law.profile(),
                          .seeds = stack.seeds,
                          .diverged_seeds = format.variants.front().forward.seeds,
                          .per_seed = format.law_profiles});
      comparisons.push_back({.spec = stack.spec,
                             .measured = measured.back(),
                             .dtype = format.is_f64() ? DType::f64 : DType::f32,
                             .prediction = stack.prediction,
                             .rounding = format.stream_rounding});
    }
  }
  std::vector<judge::StackVerdict> laws = judge::verdicts_of(comparisons, options);
  auto law = laws.begin();
  std::vector<judge::StackVerdict*> drifts;
  std::vector<judge::Test*> massive;
  for (FormatsStack& stack : stacks) {
    for (FormatResult& format : stack.formats) {
      format.law = std::move(*law++);
      if (format.is_f64()) continue;
      const bool judged = stack.seeds >= judge::fewest_seeds && format.variants.front().forward.seeds == 0;
      if (judged) format.drift.tests = drift_tests(stack, format, options);
      if (!judged) format.drift.reason = format.law.reason;
      drifts.push_back(&format.drift);
      if (format.branch_cost.count() == 0) continue;
      format.massive = {.measured = {format.branch_cost.mean(), format.branch_cost.standard_error()},
                        .seeds = stack.seeds};
      massive.push_back(&format.massive);
    }
  }
  judge::judge(drifts, options.familywise_error);
  judge::judge(massive, {.familywise_error = options.familywise_error});
}

std::string massive_words(const judge::Test& judged) {
  switch (judged.verdict) {
    case judge::Verdict::disagrees: return judged.measured.value > 0.0 ? "hurts" : "helps";
    case judge::Verdict::agrees: return "no difference seen";
    case judge::Verdict::inconclusive: return "not finite";
    case judge::Verdict::not_checked: break;
  }
  return "";
}

bool check_failed(const std::vector<FormatsStack>& stacks) {
  return std::ranges::any_of(stacks, [](const FormatsStack& stack) {
    return judge::disagrees(stack.formats.front().law) ||
           std::ranges::any_of(stack.formats, [](const FormatResult& format) {
             const bool overflowed = format.variants.front().forward.of_first_seed;
             return format.certificate && format.certificate->certified && overflowed;
           });
  });
}

}  // namespace periscope::formats
