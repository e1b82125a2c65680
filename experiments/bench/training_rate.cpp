#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/bench/measure.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/train/trainer.h"

/// Measures the tokens a second that `train` trains on, and its memory: Peri-LN with
/// SwiGLU and RoPE, f32, on the synthetic language. Prints one line of JSON.
namespace periscope::bench {
namespace {

constexpr int tokens = 64, batch = 16, steps = 60, warm_up = 10;

struct Work {
  int layers = 12;
  int width = 96;
  int heads = 6;
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
  spec.input.tokens = tokens;
  spec.input.second_moment = 4e-4;
  validate(spec);
  return spec;
}

void print_line(const Work& work) {
  omp_set_num_threads(work.threads);
  const StackSpec spec = spec_of(work);
  TrainSpec train;
  train.batch = batch;
  train.steps = steps + warm_up;
  const std::unique_ptr<Backend> ops = make_backend("cpu");
  const Corpus corpus(train.corpus, train.validation, tokens + 1, spec.model.vocab);
  Trainer trainer(*ops, spec, train, corpus, 0, DType::f32);
  for (int i = 0; i < warm_up; ++i) (void)trainer.step();
  std::vector<double> seconds = seconds_of_each(steps, [&] { (void)trainer.step(); });
  std::ranges::nth_element(seconds, seconds.begin() + (steps - 1) / 2);
  const nlohmann::ordered_json line{{"tokens_per_second", batch * tokens / seconds[(steps - 1) / 2]},
                                    {"peak_bytes", peak_memory()}};
  fmt::print("{}\n", line.dump());
}

}  // namespace
}  // namespace periscope::bench

int main(int argc, char** argv) {
  CLI::App app("Tokens per second of training: one line of JSON");
  periscope::bench::Work work;
  app.add_option("--layers", work.layers)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--width", work.width)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--heads", work.heads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--threads", work.threads)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    periscope::bench::print_line(work);
  } catch (const periscope::Error& error) {
    fmt::print(stderr, "training_rate: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
