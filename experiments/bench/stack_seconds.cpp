#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/bench/measure.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/at_width.h"
#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/weights_choice.h"
#include "experiments/engine/study/origin.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/random/normal.h"

/// The time and the memory of stacks of a preset's shape, as `propagate` measures them, without theory: Peri-LN with a
/// final norm, Gaussian input, f32, statistics read at every site. With --parts also, in the same run, what a large
/// product and a normal number cost alone. Prints one line of JSON.
namespace periscope::bench {
namespace {

using nlohmann::ordered_json;

struct Work {
  std::string preset = "3.2B";
  int width = 0;  ///< 0: the preset's
  int tokens = 128;
  int layers = 2;
  int seeds = 1;
  std::string way = "forward";
  std::string weights = "dense";
  double memory = 0.0;  ///< GiB that the backward pass may use, as --memory of propagate; 0: its default
  int threads = omp_get_num_procs();
  int repeats = 3;
  bool warm_up = false;
  bool parts = false;
  bool dry_run = false;
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto in_seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return in_seconds(used.ru_utime) + in_seconds(used.ru_stime);
}

StackSpec spec_of(const Work& work) {
  StackSpec spec;
  const auto preset = std::ranges::find(presets, work.preset, &Preset::name);
  if (preset == presets.end()) throw ConfigError(fmt::format("--preset: no preset is called {}", work.preset));
  ModelSpec& m = spec.model;
  m.layers = work.layers;
  m.width = preset->width;
  m.heads = preset->heads;
  m.kv_heads = preset->kv_heads;
  m.head_dim = preset->head_dim;
  m.mlp_width = preset->mlp_width;
  m.placement = find_placement("peri").value();
  m.final_norm = true;
  spec.input.tokens = work.tokens;
  return config::at_width(spec, work.width == 0 ? m.width : work.width, "--width");
}

config::RunOptions run_of(const Work& work) {
  config::RunOptions run;
  run.seeds = work.seeds;
  run.threads = work.threads;
  run.backward = work.way == "backward";
  run.weights = work.weights == "dense" ? config::WeightsChoice::dense : config::WeightsChoice::matrix_free;
  run.memory = work.memory * 0x1p30;
  return run;
}

/// Floating-point operations of the products of one layer, a multiply-add being two: of every matrix once, or with
/// `backward` three times; attention's two products of the tokens that a token sees, or with `backward` seven.
double operations(const ModelSpec& m, int tokens, bool backward) {
  const double t = tokens;
  const double query = static_cast<double>(m.heads) * m.head_dim;
  const double key = static_cast<double>(m.kv_heads) * m.head_dim;
  const double matrices = 2.0 * m.width * (query + key) + 3.0 * static_cast<double>(m.width) * m.mlp_width;
  const double attention = query * t * t / 2.0;  // of one product, half of it masked
  return 2.0 * (backward ? 3.0 * t * matrices + 7.0 * attention : t * matrices + 2.0 * attention);
}

/// Wall-clock and processor time of every repeat.
struct Times {
  std::vector<double> wall, processor;

  void add(const std::function<void()>& f) {
    const double before = processor_seconds();
    wall.push_back(seconds_of(f));
    processor.push_back(processor_seconds() - before);
  }
};

/// Measures the cost of single parts of a dense stack: one large product, before and after everything else, and normal
/// numbers.
class Parts {
 public:
  Parts(const Backend& cpu, const ModelSpec& m)
      : cpu_(cpu),
        x_(cpu.normal(1024, m.width, DType::f32, {1, 0, Stream{1}}, 1.0)),
        w_(cpu.normal(m.mlp_width, m.width, DType::f32, {1, 0, Stream{2}}, 1.0)),
        numbers_(1U << 14U) {}

  void multiply() {
    product_.add([&] { (void)cpu_.linear(x_, w_); });
  }
  /// Into the cache, as the products draw.
  void draw() {
    drawing_.add([&] {
      for (std::uint64_t piece = 0; piece < pieces; ++piece) {
        fill_normal<float>({1, 0, Stream{3}}, piece * numbers_.size(), 1.0, numbers_);
      }
    });
  }
  [[nodiscard]] ordered_json json() const {
    const double operations = 2.0 * static_cast<double>(x_.rows()) * static_cast<double>(w_.size());
    return {{"product_gflops", 1e-9 * operations / *std::ranges::min_element(product_.wall)},
            {"product_gflops_per_processor_second", 1e-9 * operations / *std::ranges::min_element(product_.processor)},
            {"normal_ns_of_a_core",
             1e9 * quantile(drawing_.processor, 0.5) / static_cast<double>(pieces * numbers_.size())}};
  }

 private:
  static constexpr std::uint64_t pieces = 1024;
  const Backend& cpu_;
  Tensor x_, w_;
  std::vector<float> numbers_;
  Times product_, drawing_;
};

ordered_json shape_json(const StackSpec& spec, const Work& work) {
  const ModelSpec& m = spec.model;
  return {{"width", m.width},         {"heads", m.heads},        {"kv_heads", m.kv_heads}, {"head_dim", m.head_dim},
          {"mlp_width", m.mlp_width}, {"vocab", m.vocab},        {"layers", m.layers},     {"tokens", work.tokens},
          {"seeds", work.seeds},      {"threads", work.threads}, {"way", work.way}};
}

ordered_json measured(const StackSpec& spec, const Work& work) {
  omp_set_num_threads(work.threads);
  const std::unique_ptr<Backend> cpu = make_backend("cpu");
  const config::RunOptions run = run_of(work);
  std::optional<Parts> parts;
  if (work.parts) parts.emplace(*cpu, spec.model);
  stacks::Progress silent;
  const auto seeds = [&] { (void)stacks::measure_stack(*cpu, spec, run, run.seeds, silent, [](const Reading&) {}); };
  if (work.warm_up) seeds();
  Times whole;
  for (int i = 0; i < work.repeats; ++i) {
    if (parts) parts->multiply();
    if (parts) parts->draw();
    whole.add(seeds);
    if (parts) parts->multiply();
  }
  ordered_json line{{"weights", config::weights_used(spec, run)},
                    {"seconds", whole.wall},
                    {"processor_seconds", whole.processor},
                    {"peak_bytes", peak_memory()},
                    {"gflop_per_layer", 1e-9 * operations(spec.model, work.tokens, run.backward)}};
  if (parts) line.update(parts->json());
  line.update({{"version", build_info::version},
               {"commit", build_info::commit},
               {"compiler", build_info::compiler},
               {"cpu", study::cpu_name()}});
  return line;
}

void print_line(const Work& work) {
  const StackSpec spec = spec_of(work);
  ordered_json line = shape_json(spec, work);
  if (!work.dry_run) line.update(measured(spec, work));
  fmt::print("{}\n", line.dump());
}

}  // namespace
}  // namespace periscope::bench

int main(int argc, char** argv) {
  CLI::App app("Time and memory of stacks as propagate measures them, without theory: one line of JSON");
  periscope::bench::Work work;
  app.add_option("--preset", work.preset, "The shape")->capture_default_str();
  app.add_option("--width", work.width, "Another width; heads and the MLP's width go in proportion");
  app.add_option("--tokens", work.tokens)->capture_default_str();
  app.add_option("--layers", work.layers)->capture_default_str();
  app.add_option("--seeds", work.seeds, "Stacks that one repeat measures")->check(CLI::PositiveNumber);
  app.add_option("--way", work.way, "forward, or backward: forward and back")
      ->check(CLI::IsMember({"forward", "backward"}));
  app.add_option("--weights", work.weights)->check(CLI::IsMember({"dense", "matrix-free"}));
  app.add_option("--memory", work.memory,
                 "GiB that the backward pass may use, as propagate's --memory; 0: its default; 0.001: "
                 "nothing is kept");
  app.add_option("--threads", work.threads)->check(CLI::PositiveNumber);
  app.add_option("--repeats", work.repeats)->check(CLI::PositiveNumber);
  app.add_flag("--warm-up", work.warm_up, "One repeat more, first, which is not timed");
  app.add_flag("--dry-run", work.dry_run, "Print the shape alone, and measure nothing");
  app.add_flag("--parts", work.parts, "Measure a product and the price of a normal number too");
  CLI11_PARSE(app, argc, argv);
  try {
    periscope::bench::print_line(work);
  } catch (const periscope::Error& error) {
    fmt::print(stderr, "stack_seconds: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
