#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "experiments/bench/measure.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"

/// Measures the share of a device's rate of matrix products that a stack reaches, forward alone and with the backward
/// pass, including statistics at every site and weights that are drawn anew. Prints a row of a Markdown table.
namespace periscope::bench {
namespace {

struct Shape {
  int tokens = 4096;
  int width = 2560;
  int heads = 16;
  int kv_heads = 8;
  int head_dim = 160;
  int mlp_width = 10240;
  int layers = 4;
  int repeats = 5;
  int keep_mib = 0;  ///< of signals that the backward pass need not compute again
};

StackSpec spec_of(const Shape& shape) {
  StackSpec spec;
  spec.model.layers = shape.layers;
  spec.model.width = shape.width;
  spec.model.heads = shape.heads;
  spec.model.kv_heads = shape.kv_heads;
  spec.model.head_dim = shape.head_dim;
  spec.model.mlp_width = shape.mlp_width;
  spec.model.vocab = 512;
  spec.model.placement = find_placement("peri").value();
  spec.model.final_norm = true;
  spec.input.tokens = shape.tokens;
  validate(spec);
  return spec;
}

/// Floating-point operations of a layer's matrix products, attention's among them, a causal pattern at half of them:
/// forward, and forward and back without what is computed again.
double forward_operations(const Shape& s) {
  const double attention = double(s.width) * s.head_dim * (2.0 * s.heads + 2.0 * s.kv_heads);
  const double mlp = 3.0 * s.width * s.mlp_width;
  return 2.0 * s.tokens * (attention + mlp) + 2.0 * double(s.tokens) * s.tokens * s.heads * s.head_dim;
}
double whole_operations(const Shape& s) {
  const double patterns = 2.0 * double(s.tokens) * s.tokens * s.heads * s.head_dim;
  return 3.0 * (forward_operations(s) - patterns) + 3.5 * patterns;  // 2 products forward, 5 back
}

double median_seconds(int repeats, const std::function<void()>& work) {
  work();
  return quantile(seconds_of_each(repeats, work), 0.5);
}

/// Operations a second of the largest product of the shape, and of a square one: the better of the two.
double best_rate(const Backend& ops, DType dtype, const Shape& s) {
  constexpr int products = 10;
  double best = 0.0;
  for (const auto& [rows, in, out] : {std::array{s.tokens, s.width, s.mlp_width}, std::array{8192, 8192, 8192}}) {
    if (ops.device() == Device::host && rows == 8192) continue;
    const Tensor x = ops.normal(rows, in, dtype, {1, 0, Stream{1}}, 1.0);
    const Tensor w = ops.normal(out, in, dtype, {1, 0, Stream{2}}, 1.0);
    const double seconds = median_seconds(s.repeats, [&, &x = x, &w = w] {
      Tensor y;
      for (int i = 0; i < products; ++i) y = ops.linear(x, w);
      (void)ops.to_host(ops.gather(y, std::vector<int>{0}));
    });
    best = std::max(best, products * 2.0 * rows * in * out / seconds);
  }
  return best;
}

void forward(const StackContext& context, const Tensor& input) {
  Probe probe(context);
  stack_forward(context, input, {.recorders = {&probe}});
  (void)probe.take();
}

void forward_and_back(const StackContext& context, const Tensor& input, const Shape& s) {
  Probe probe(context);
  GradientProbe gradients(context);
  const Hooks hooks{.recorders = {&probe, &gradients}, .gradients = {&gradients}};
  StackTape tape;
  tape.budget = static_cast<std::size_t>(s.keep_mib) << 20U;
  const Tensor output = stack_forward(context, input, hooks, &tape).output;
  std::vector<int> labels(static_cast<std::size_t>(s.tokens));
  for (int t = 0; t < s.tokens; ++t) labels[static_cast<std::size_t>(t)] = 7 * t % 512;
  (void)stack_backward(tape, loss_of(context, output, labels, hooks).doutput);
  Profile profile = probe.take().profile;
  gradients.take_into(profile);
}

DType dtype_called(const std::string& name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw ConfigError(fmt::format("dtype \"{}\": expected f64, f32, bf16 or f16", name));
}

void measure(const std::string& device, const std::string& dtype_name, const Shape& shape) {
  const std::unique_ptr<Backend> ops = make_backend(device);
  const DType dtype = dtype_called(dtype_name);
  if (!ops->supports(dtype)) throw ConfigError(fmt::format("{} does not compute in {}", device, dtype_name));
  const StackSpec spec = spec_of(shape);
  const GeneratedWeights weights(*ops, spec, dtype, 1);
  const StackContext context{.ops = *ops, .model = spec.model, .weights = weights};
  const Tensor input = gaussian_input(*ops, spec, dtype, 1);
  const double rate = best_rate(*ops, dtype, shape);
  const double there = median_seconds(shape.repeats, [&] { forward(context, input); }) / shape.layers;
  const double back = median_seconds(shape.repeats, [&] { forward_and_back(context, input, shape); }) / shape.layers;
  fmt::print("| {} | {} | {} | {:.1f} TFLOP/s | {:.2f} ms | {:.0f} % | {:.2f} ms | {:.0f} % |\n", device, dtype_name,
             shape.tokens, rate / 1e12, 1e3 * there, 100.0 * forward_operations(shape) / there / rate, 1e3 * back,
             100.0 * whole_operations(shape) / back / rate);
}

}  // namespace
}  // namespace periscope::bench

int main(int argc, char** argv) {
  CLI::App app(
      "A stack's share of a device's rate of matrix products, as a row of a table: device, dtype, tokens, rate; "
      "of a layer forward time and share, with the backward pass time and share");
  std::string device, dtype;
  periscope::bench::Shape shape;
  app.add_option("device", device, "cpu, cuda or cuda-tf32")->required();
  app.add_option("dtype", dtype, "f64, f32, bf16 or f16")->required();
  app.add_option("--tokens", shape.tokens);
  app.add_option("--width", shape.width);
  app.add_option("--heads", shape.heads);
  app.add_option("--kv-heads", shape.kv_heads);
  app.add_option("--head-dim", shape.head_dim);
  app.add_option("--mlp-width", shape.mlp_width);
  app.add_option("--layers", shape.layers);
  app.add_option("--repeats", shape.repeats)->check(CLI::PositiveNumber);
  app.add_option("--keep-mib", shape.keep_mib, "Signals kept for the backward pass; the rest is computed again");
  CLI11_PARSE(app, argc, argv);
  try {
    periscope::bench::measure(device, dtype, shape);
  } catch (const periscope::Error& error) {
    fmt::print(stderr, "device_rate: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
