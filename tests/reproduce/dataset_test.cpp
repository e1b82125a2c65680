#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/engine/judge/sign_claim_tests.h"
#include "experiments/engine/run/size_nulls.h"
#include "experiments/engine/run/weight_scales_of.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "experiments/studies/studies.h"
#include "sim/backends.h"
#include "tests/reproduce/made_up_runs.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "theory/predict/predict_batch.h"

namespace periscope::testing {
namespace {

/// The values of a column of numbers.
std::vector<double> numbers_of(const dataset::Dataset& data, const char* name) {
  const dataset::Values& values = data.find(name)->values;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < dataset::size_of(values); ++i) numbers.push_back(dataset::number_at(values, i));
  return numbers;
}

std::vector<std::string> words_of(const dataset::Dataset& data, const char* name) {
  return std::get<std::vector<std::string>>(data.find(name)->values);
}

/// One layer and two steps, of figure 1.
reproduce::ReproduceConfig tiny_config(int seeds) {
  reproduce::ReproduceConfig config;
  static_cast<training::TrainConfig&>(config) =
      training::train_config(study::Request{.known = sections()}.load(), "", {}, false, "");
  ModelSpec& model = config.base.model;
  model.layers = model.heads = model.kv_heads = 1;
  model.width = model.head_dim = model.mlp_width = 8;
  model.vocab = 32;
  config.base.input.kind = InputKind::tokens;
  config.base.input.tokens = 24;  // labels enter by how often they repeat
  config.train.steps = 2;
  config.train.batch = 1;
  config.train.record_sequences = 2;
  config.run.seeds = seeds;
  config.figures = {"1"};
  return config;
}

TEST_CASE("columns: geometric means have the standard error of the mean logarithm; the last of the top magnitudes") {
  reproduce::ReproduceConfig config;
  config.base.model.layers = 3;
  config.run.seeds = 3;
  config.train.steps = 40;
  config.train.record_every = 40;
  reproduce::ReproduceResult result;
  result.groups.push_back(group_of("pre", 1.0, [](int seed) {
    training::TrainedCell run = run_with_loss(3.0);
    for (auto& [step, record] : run.history.records) {
      record.at("variance.x_out").assign(7, 50.0 * std::exp(static_cast<double>(seed)));
      record.at("top_magnitudes") = {9.0, 8.0, 7.0, 6.0};
      record["angular_distance"] = std::vector<double>(7UL * 7UL, 0.0);
      record["validation_loss"] = {3.0};
      record["scaled_second_moment_stderr"] = std::vector<double>(7, 0.0);
      record["profiled_second_moment_stderr"] = std::vector<double>(7, 0.0);
      // At the top: 7 at the end, 3 before training.
      record.at("second_moment.x_out").back() = step == 0 ? 3.0 : 7.0;
      record.at("scaled_second_moment").back() = 4.0;
      record.at("profiled_second_moment").back() = 5.0;
      record.at("rescaled_second_moment").back() = 6.0;
      record.at("profiled_deviation").back() = 0.25;
      record.at("signs_log_moment").back() = std::log(6.0);
      record.at("signs_deviation").back() = 0.125;
    }
    return run;
  }));
  const dataset::Dataset data = reproduce::dataset_of(config, result);
  const auto first = [&](const char* name) { return numbers_of(data, name).front(); };
  CHECK(first("variance_measured") == doctest::Approx(50.0 * std::exp(1.0)));
  CHECK(first("variance_stderr") == doctest::Approx(1.0 / std::sqrt(3.0)));  // of 0, 1, 2
  CHECK(first("top_first") == 9.0);
  CHECK(first("top_last") == 6.0);
  // The three parts of growth add up to it, and each null has its own error.
  CHECK(first("growth_from_scales") == doctest::Approx(std::log(4.0 / 3.0)));
  CHECK(first("growth_from_sizes_inside") == doctest::Approx(std::log(5.0 / 4.0)));
  CHECK(first("growth_from_alignment") == doctest::Approx(std::log(7.0 / 5.0)));
  // In the other order: sizes make 4/3 alone and 7/6 of trained directions.
  CHECK(first("growth_from_directions") == doctest::Approx(std::log(6.0 / 3.0)));
  CHECK(first("growth_from_scales_given_directions") == doctest::Approx(std::log(7.0 / 6.0)));
  CHECK(first("growth_interaction") == doctest::Approx(std::log(7.0 / 6.0) - std::log(4.0 / 3.0)));
  CHECK(first("growth_alignment_error") == 0.25);
  CHECK(first("growth_beyond_signs") == doctest::Approx(std::log(7.0 / 6.0)));
  CHECK(first("growth_beyond_signs_error") == 0.125);
}

/// A result of one group, whose variance over depth at the end is `law` of seed and depth.
reproduce::ReproduceResult with_growth(const std::function<double(int, double)>& law) {
  reproduce::ReproduceResult result;
  result.groups.push_back(group_of("pre", 1.0, [&](int seed) {
    training::TrainedCell run = run_with_loss(3.0);
    std::vector<double> variance;
    for (int d = 0; d < 9; ++d) variance.push_back(law(seed, d));
    for (auto& [step, record] :
         run.history.records) {  // of four layers: nine depths, the fewest that are fitted are eight
      for (auto& [name, values] : record) {
        if (values.size() == 7) values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        if (values.size() == 6) values.assign(8, 1.0);
      }
      record.at("grad_sq.weight.q").assign(4, 1.0);
      record["angular_distance"] = std::vector<double>(9UL * 9UL, 0.0);
      record["validation_loss"] = {3.0};
      record["scaled_second_moment_stderr"] = std::vector<double>(9, 0.0);
      record["profiled_second_moment_stderr"] = std::vector<double>(9, 0.0);
    }
    run.history.records.rbegin()->second.at("variance.x_out") = variance;
    return run;
  }));
  return result;
}

reproduce::ReproduceConfig small() {
  reproduce::ReproduceConfig config;
  config.base.model.layers = 4;
  config.run.seeds = 3;
  config.train.steps = 40;
  config.train.record_every = 40;
  return config;
}

TEST_CASE("the law of growth of every seed: which, how closely, of how many points; in the table with its misfit") {
  // Seed 0 a line, seed 1 an exponential, seed 2 a step that no law describes; the first two have errors of 2 %.
  const reproduce::ReproduceResult result = with_growth([](int seed, double d) {
    const double error = std::fmod(d, 2.0) == 0.0 ? 1.02 : 0.98;
    return seed == 0 ? (1.0 + d) * error : seed == 1 ? std::exp(0.8 * d) * error : d < 5.0 ? 1.0 : 20.0;
  });
  const dataset::Dataset data = reproduce::dataset_of(small(), result);
  CHECK(words_of(data, "growth_law") == std::vector<std::string>{"linear", "exponential", "no law fits"});
  const auto& end = result.groups[0].cells[1].history.records.rbegin()->second.at("variance.x_out");
  const auto fit = judge::fit_growth(end);
  for (std::size_t law = 0; law < 3; ++law) {  // of the second seed
    CHECK(numbers_of(data, "growth_misfit")[3 + law] == fit.laws[law].rms_residual);
    CHECK(numbers_of(data, "growth_criterion")[3 + law] == fit.laws[law].criterion);
  }
  CHECK(numbers_of(data, "growth_effective_points")[1] == fit.effective_points);
  const std::string text = reproduce::table(small(), result);
  CHECK(text.find(fmt::format("exponential (1, rms {:.2g} %)", 100.0 * fit.laws[2].rms_residual)) != std::string::npos);
  CHECK(text.find("no law") != std::string::npos);
}

TEST_CASE(
    "beside every claim's own chance stands that among all claims, and the table counts what chance would decide") {
  reproduce::ReproduceResult result = with_growth([](int, double d) { return 1.0 + d; });
  for (const double p : {1e-5, 0.03, 0.96, 0.4}) {
    result.claims.push_back({.id = fmt::format("C{}", result.claims.size()),
                             .exhibit = "1",
                             .statement = "s",
                             .quantity = "q",
                             .verdict = p < 0.05   ? judge::ClaimVerdict::holds
                                        : p > 0.95 ? judge::ClaimVerdict::fails
                                                   : judge::ClaimVerdict::not_shown,
                             .values = {1.0, 2.0, 3.0},
                             .p = p,
                             .reason = ""});
  }
  result.claims.push_back({.id = "C4",
                           .exhibit = "1",
                           .statement = "large",
                           .quantity = "q",
                           .verdict = judge::ClaimVerdict::not_testable,
                           .values = {1.0, 2.0, 3.0},
                           .p = std::nan(""),
                           .reason = "too short",
                           .regime = {"width 8", reproduce::regime_of(small()).front()}});
  judge::correct_for_number(result.claims);
  const dataset::Dataset data = reproduce::dataset_of(small(), result);
  CHECK(numbers_of(data, "claim_holm")[0] == doctest::Approx(4.0 * 2e-5));
  CHECK(numbers_of(data, "claim_holm")[1] == doctest::Approx(3.0 * 0.06));
  const std::string text = reproduce::table(small(), result);
  CHECK(text.find("4 claims tested one by one, 3 decided; up to 0.4 would be by chance") != std::string::npos);
  CHECK(text.find("(p of all, Holm's, at most 5 %): C0.\n") != std::string::npos);
  // Not counted, with the part of its regime that is not the run's.
  CHECK(text.find("C4 cannot be tested here: too short.") != std::string::npos);
  CHECK(text.find("not-testable-here") != std::string::npos);
  CHECK(text.find("large [width 8]") != std::string::npos);
  CHECK(text.find("in the regime σ√D ") != std::string::npos);
  CHECK(words_of(data, "claim_regime")[4].starts_with("width 8, σ√D "));
}

TEST_CASE("theory before training has the tokens and the labels of every recorded window") {
  const reproduce::ReproduceConfig config = tiny_config(1);
  const Corpus corpus(config.train.corpus, config.train.validation, config.base.input.tokens + 1,
                      config.base.model.vocab);
  stacks::Progress silent;
  const reproduce::ReproduceResult result = reproduce::run(config, corpus, {.folder = {}, .identity = {}}, silent);
  const auto pre = std::ranges::find(result.groups, "pre", [](const auto& runs) { return runs.group.name; });
  REQUIRE(pre != result.groups.end());
  const Windows windows = held_out(corpus, config.base.input.tokens + 1, 2);
  REQUIRE(windows.count() == 2);
  const theory::PredictionOptions options{
      .tolerance = 0.01, .gradient_tolerance = 0.05, .most_samples = 1 << 12, .seed = config.run.seed};
  const theory::Prediction expected =
      theory::predict_batch(pre->group.spec, {windows.inputs(0, 1), windows.inputs(1, 1)},
                            {windows.labels(0, 1), windows.labels(1, 1)}, options);
  const Curve* found = result.initial.at("pre").profile.find(Statistic::grad_sq, Weight::q);
  const Curve* wanted = expected.profile.find(Statistic::grad_sq, Weight::q);
  REQUIRE(found != nullptr);
  REQUIRE(wanted != nullptr);
  check_same_bits("q", found->value, wanted->value);
}

TEST_CASE(
    "every group has its own runs, in the order of the seeds, and what random weights of their scales would have") {
  const reproduce::ReproduceConfig config = tiny_config(2);
  const Corpus corpus(config.train.corpus, config.train.validation, config.base.input.tokens + 1,
                      config.base.model.vocab);
  stacks::Progress silent;
  const reproduce::ReproduceResult result = reproduce::run(config, corpus, {.folder = {}, .identity = {}}, silent);
  REQUIRE(result.groups.size() == 5);
  CHECK(result.initial.size() == 5);
  CHECK(result.loss_floor == corpus.loss_floor(config.base.input.tokens));
  for (const reproduce::GroupRuns& runs : result.groups) {
    REQUIRE(runs.cells.size() == 2);
    for (std::size_t s = 0; s < 2; ++s) {
      INFO(runs.group.name, " ", s);
      const training::TrainCell& cell = runs.cells[s].cell;
      CHECK(cell.seed == config.run.seed + s);
      CHECK(cell.spec.model.placement.name == runs.group.name);
    }
  }
  const Windows windows = held_out(corpus, config.base.input.tokens + 1, config.train.record_sequences);
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  const training::TrainedCell& kept = result.groups[2].cells[1];
  const training::TrainedCell again = training::run_cell(*ops, kept.cell, corpus, nullptr, {});
  StackSpec spec = kept.cell.spec;
  spec.scales = std::make_shared<const WeightScales>(stacks::scales_of(
      *ops, spec.model, ResidentWeights(spec.model, again.parameters), windows.inputs(0, windows.count())));
  const theory::Prediction expected =
      theory::predict(spec, {windows.inputs(0, 1), windows.inputs(1, 1)},
                      {.tolerance = 0.02, .most_samples = 1 << 11, .seed = kept.cell.seed});
  const Curve* wanted = expected.profile.find(Statistic::second_moment, Signal::x_out);
  const training::RecordedValues& last = kept.history.records.rbegin()->second;
  check_same_bits("scaled", last.at("scaled_second_moment"), wanted->value);
  check_same_bits("scaled", last.at("scaled_second_moment_stderr"), wanted->standard_error);
  CHECK_FALSE(kept.history.records.begin()->second.contains("scaled_second_moment"));
  // The trained matrices at the sizes of the stack before training, whose gains are 1; the head is not in the stream.
  ResidentWeights rescaled(kept.cell.spec.model, again.parameters);
  const std::vector<int> ids = windows.inputs(0, windows.count());
  const WeightScales at_end = stacks::scales_of(*ops, spec.model, rescaled, ids);
  const WeightScales at_start =
      stacks::scales_of(*ops, spec.model, GeneratedWeights(*ops, kept.cell.spec, kept.cell.dtype, kept.cell.seed), ids);
  for (auto& [id, x] : rescaled.parameters()) {
    if (is_norm(id.weight))
      x = ops->constant(x.rows(), x.cols(), x.dtype(), 1.0);
    else
      x = ops->scale(at_start.stddev.at(id) / at_end.stddev.at(id), x);
  }
  const std::vector<double> logs = stacks::log_second_moments(*ops, spec.model, rescaled, ids, windows.count());
  const std::vector<double>& found = last.at("rescaled_second_moment");
  REQUIRE(found.size() == logs.size());
  for (std::size_t d = 0; d < logs.size(); ++d) CHECK(found[d] == doctest::Approx(std::exp(logs[d])).epsilon(1e-6));
  // 16 models of random signs, which no other seed has.
  const ResidentWeights trained(kept.cell.spec.model, again.parameters);
  const stacks::NullDraws drawn = stacks::draw_null(
      *ops, kept.cell.spec, trained, windows.inputs(0, windows.count()), static_cast<int>(windows.count()),
      stacks::size_nulls[stacks::signs_null], DType::f64, 16 * kept.cell.seed, 16);
  std::vector<double> means;
  for (std::size_t depth = 0; depth < wanted->value.size(); ++depth) means.push_back(drawn.mean(depth));
  CHECK(kept.cell.seed > 0);
  check_same_bits("signs", last.at("signs_log_moment"), means);
}

}  // namespace
}  // namespace periscope::testing
