#include <cxxabi.h>
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/bench/measure.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/study/study.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/cuda/backend.h"
#include "sim/cuda/on_host/backend.h"
#include "sim/train/trainer.h"

/// Measures time and memory of a stack with layers of the 3.2B preset as in `propagate`, without theory: Peri-LN with a
/// final norm, Gaussian input, statistics at every site. Also measures the rate of a matrix product, and with --by-op
/// every kernel of the CUDA backend. Memory is the process's peak in host memory. The subcommand `train` measures the
/// tokens per second of training instead. Prints one line of JSON.
namespace periscope::bench {
namespace {

using nlohmann::ordered_json;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Returns the floating-point operations of one layer's products; a multiply-add counts as two. With `backward`, a
/// matrix is used three times instead of once, and attention has seven products over the visible tokens instead of two.
double operations(const ModelSpec& m, int tokens, bool backward) {
  const double t = tokens;
  const double query = static_cast<double>(m.heads) * m.head_dim;
  const double key = static_cast<double>(m.kv_heads) * m.head_dim;
  const double matrices = 2.0 * m.width * (query + key) + 3.0 * static_cast<double>(m.width) * m.mlp_width;
  const double attention = query * t * t / 2.0;  // multiply-adds of one product; half of it is masked
  return 2.0 * (backward ? 3.0 * t * matrices + 7.0 * attention : t * matrices + 2.0 * attention);
}

/// Wall-clock and processor seconds of each repeat.
struct Times {
  std::vector<double> wall, processor;

  void add(const std::function<void()>& f) {
    const double before = processor_seconds();
    wall.push_back(seconds_of(f));
    processor.push_back(processor_seconds() - before);
  }
};

constexpr std::string_view on_host = "cuda-on-host";

/// Creates a backend of sim/backends.h, or the CUDA backend on the host. `profile` may be null. Throws ConfigError if
/// `device` does not support a profile.
std::unique_ptr<Backend> make_backend(const std::string& device, cuda::Profile* profile = nullptr) {
  if (device == on_host) return make_cuda_backend_on_host({.profile = profile});
  if (profile == nullptr) return periscope::make_backend(device);
  if (device == "cuda" || device == "cuda-tf32") {
    return make_cuda_backend({.tf32 = device == "cuda-tf32", .profile = profile});
  }
  throw ConfigError(fmt::format("--device {}: expected cuda, cuda-tf32 or {} with --by-op", device, on_host));
}

/// Demangles a C++ type and removes namespaces; returns other text unchanged.
std::string short_name(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  static const std::regex namespaces(R"((\w+::|\(anonymous namespace\)::)+| (?=>))");
  return std::regex_replace(status == 0 ? demangled.get() : name, namespaces, "");
}

void run_stack(const Backend& ops, const StackSpec& spec, const config::RunOptions& run) {
  stacks::Progress silent;
  (void)stacks::measure_stack(ops, spec, run, 1, "", silent, [](const Reading&) {});
}

/// Returns the launches of one run of the stack by op and kernel. On a GPU, a warm-up precedes this run.
ordered_json by_op(const StackSpec& spec, const config::RunOptions& run) {
  cuda::Profile profile;
  const std::unique_ptr<Backend> ops = make_backend(run.device, &profile);
  for (int i = ops->device() == Device::host ? 1 : 0; i < 2; ++i) {
    profile.kernels.clear();
    run_stack(*ops, spec, run);
    (void)ops->to_host(ops->constant(1, 1, run.dtype, 0.0));  // waits for the stack's launches
  }
  ordered_json kernels = ordered_json::array();
  for (const auto& [key, use] : profile.kernels) {
    kernels.push_back({{"op", key.first},
                       {"kernel", short_name(key.second)},
                       {"launches", use.launches},
                       {"seconds", use.seconds},
                       {"read", use.read},
                       {"written", use.written},
                       {"most_accesses", use.most_accesses}});
  }
  return {{"kernels", kernels}};
}

ordered_json measured(const StackSpec& spec, const config::RunOptions& run, int repeats) {
  const std::unique_ptr<Backend> ops = make_backend(run.device);
  const int rows = ops->device() == Device::host ? 1024 : 8192;
  const Tensor x = ops->normal(rows, spec.model.width, run.dtype, {1, 0, Stream{1}}, 1.0);
  const Tensor w = ops->normal(spec.model.mlp_width, spec.model.width, run.dtype, {1, 0, Stream{2}}, 1.0);
  const auto multiply = [&] { (void)ops->to_host(ops->gather(ops->linear(x, w), std::vector<int>{0})); };
  const auto stack = [&] { run_stack(*ops, spec, run); };
  if (repeats > 1) stack();
  Times whole, product;
  product.add(multiply);
  for (int i = 0; i < repeats; ++i) {
    whole.add(stack);
    product.add(multiply);
  }
  const double gflop = 2e-9 * rows * static_cast<double>(w.size());
  return {{"seconds", whole.wall},
          {"processor_seconds", whole.processor},
          {"peak_bytes", peak_memory()},
          {"gflop_per_layer", 1e-9 * operations(spec.model, spec.input.tokens, run.backward)},
          {"product_gflops", gflop / *std::ranges::min_element(product.wall)},
          {"version", build_info::version},
          {"commit", build_info::commit},
          {"compiler", build_info::compiler},
          {"cpu", study::cpu_name()}};
}

/// Shape of the trained model: Peri-LN with SwiGLU and RoPE, f32, on the synthetic corpus.
struct Training {
  int layers = 12;
  int width = 96;
  int heads = 6;
};

ordered_json trained(const Training& shape) {
  constexpr int tokens = 64, batch = 16, steps = 60, warm_up = 10;
  StackSpec spec;
  ModelSpec& m = spec.model;
  m.layers = shape.layers;
  m.width = shape.width;
  m.heads = m.kv_heads = shape.heads;
  m.head_dim = shape.width / shape.heads;
  m.mlp_width = 4 * shape.width;
  m.vocab = 256;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = tokens;
  spec.input.second_moment = 4e-4;
  validate(spec);
  TrainSpec train;
  train.batch = batch;
  train.steps = steps + warm_up;
  const std::unique_ptr<Backend> ops = make_backend("cpu");
  const Corpus corpus(train.corpus, train.validation, tokens + 1, m.vocab);
  Trainer trainer(*ops, spec, train, corpus, 0, DType::f32);
  for (int i = 0; i < warm_up; ++i) (void)trainer.step();
  std::vector<double> seconds = seconds_of_each(steps, [&] { (void)trainer.step(); });
  std::ranges::nth_element(seconds, seconds.begin() + (steps - 1) / 2);
  return {{"tokens_per_second", batch * tokens / seconds[(steps - 1) / 2]}, {"peak_bytes", peak_memory()}};
}

int run(int argc, char** argv) {
  StackSpec spec;
  ModelSpec& m = spec.model;
  std::ranges::find(presets, "3.2B", &Preset::name)->set_shape(m);
  m.layers = 2;
  m.placement = find_placement("peri").value();
  m.final_norm = true;
  spec.input.tokens = 128;
  config::RunOptions options;
  options.seeds = 1;
  options.threads = omp_get_num_procs();
  std::string direction = "forward";
  std::string weights = "dense";
  std::string dtype = "f32";
  int repeats = 1;
  bool kernels = false;
  CLI::App app("Measures time and memory of layers of the 3.2B shape in propagate; prints one line of JSON");
  app.add_option("--tokens", spec.input.tokens)->capture_default_str();
  app.add_option("--layers", m.layers)->capture_default_str();
  app.add_option("--direction", direction, "forward, or backward (includes the forward pass)")
      ->check(CLI::IsMember({"forward", "backward"}));
  app.add_option("--weights", weights)->check(CLI::IsMember({"dense", "matrix-free"}));
  app.add_option("--device", options.device);
  app.add_option("--dtype", dtype);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--repeats", repeats, "Number of timed repeats; if there are several, a warm-up precedes them")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--by-op", kernels, "Also measure every kernel; --device cuda, cuda-tf32 or cuda-on-host");
  Training training;
  CLI::App* train = app.add_subcommand("train", "Measure the tokens per second of training in f32 on the CPU");
  train->add_option("--layers", training.layers)->check(CLI::PositiveNumber)->capture_default_str();
  train->add_option("--width", training.width)->check(CLI::PositiveNumber)->capture_default_str();
  train->add_option("--heads", training.heads)->check(CLI::PositiveNumber)->capture_default_str();
  train->add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  omp_set_num_threads(options.threads);
  if (train->parsed()) {
    fmt::print("{}\n", trained(training).dump());
    return 0;
  }
  validate(spec);
  options.backward = direction == "backward";
  options.weights = weights == "dense" ? config::WeightsChoice::dense : config::WeightsChoice::matrix_free;
  options.dtype = config::parse_dtype(dtype);
  ordered_json line{{"width", m.width},          {"heads", m.heads},       {"kv_heads", m.kv_heads},
                    {"head_dim", m.head_dim},    {"vocab", m.vocab},       {"mlp_width", m.mlp_width},
                    {"layers", m.layers},        {"direction", direction}, {"tokens", spec.input.tokens},
                    {"threads", options.threads}};
  if (kernels) line.update(by_op(spec, options));
  line.update(measured(spec, options, repeats));
  fmt::print("{}\n", line.dump());
  return 0;
}

}  // namespace
}  // namespace periscope::bench

int main(int argc, char** argv) {
  try {
    return periscope::bench::run(argc, argv);
  } catch (const periscope::Error& error) {
    fmt::print(stderr, "stack_seconds: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
