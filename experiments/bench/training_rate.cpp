#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/bench/measure.h"
#include "experiments/engine/training/record.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/train/trainer.h"

/// Measures the tokens a second that `train` trains on, the cost of a record beside that, and the memory of both:
/// Peri-LN with SwiGLU and RoPE, f32, on the synthetic language. Prints one line of JSON.
namespace periscope::bench {
namespace {

struct Work {
  int layers = 12;
  int width = 96;
  int heads = 6;
  int tokens = 64;
  int batch = 16;
  int steps = 60;
  int warm_up = 10;
  int threads = omp_get_num_procs();
};

StackSpec spec_of(const Work& work) {
  StackSpec spec;
  ModelSpec& m = spec.model;
  m.layers = work.layers;
  m.width = work.width;
  m.heads = m.kv_heads = work.heads;
  m.head_dim = work.width / work.heads;
  m.mlp_width = 4 * work.width;
  m.vocab = 256;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = work.tokens;
  spec.input.second_moment = 4e-4;
  validate(spec);
  return spec;
}

void print_line(const Work& work) {
  omp_set_num_threads(work.threads);
  const StackSpec spec = spec_of(work);
  TrainSpec train;
  train.batch = work.batch;
  train.steps = work.steps + work.warm_up;
  const std::unique_ptr<Backend> ops = make_backend("cpu");
  const Corpus corpus(train.corpus, train.validation, work.tokens + 1, spec.model.vocab);
  Trainer trainer(*ops, spec, train, corpus, 0, DType::f32);
  for (int i = 0; i < work.warm_up; ++i) (void)trainer.step();
  const std::vector<double> steps = seconds_of_each(work.steps, [&] { (void)trainer.step(); });
  const double memory = peak_memory();
  const training::Recorder recorder(*ops, spec, train, corpus);
  const std::vector<double> records = seconds_of_each(5, [&] { (void)recorder.record(trainer.weights()); });
  const double step = quantile(steps, 0.5);
  const double record = quantile(records, 0.5);
  const nlohmann::ordered_json line{
      {"layers", work.layers},    {"width", work.width},
      {"threads", work.threads},  {"tokens_per_second", work.batch * work.tokens / step},
      {"step_seconds", step},     {"step_seconds_quartiles", {quantile(steps, 0.25), quantile(steps, 0.75)}},
      {"record_seconds", record}, {"record_share", record / (train.record_every * step)},
      {"peak_bytes", memory},     {"peak_bytes_with_records", peak_memory()}};
  fmt::print("{}\n", line.dump());
}

}  // namespace
}  // namespace periscope::bench

int main(int argc, char** argv) {
  CLI::App app("Tokens per second of training, and what a record costs: one line of JSON");
  periscope::bench::Work work;
  app.add_option("--layers", work.layers)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--width", work.width)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--heads", work.heads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--tokens", work.tokens)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", work.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--steps", work.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--warm-up", work.warm_up)->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--threads", work.threads)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    periscope::bench::print_line(work);
  } catch (const periscope::Error& error) {
    fmt::print(stderr, "training_rate: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
