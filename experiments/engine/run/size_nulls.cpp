#include "experiments/engine/run/size_nulls.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "experiments/engine/run/cost.h"
#include "sim/base/parallel_for.h"
#include "sim/model/input.h"
#include "sim/model/stack.h"
#include "sim/random/normal.h"

namespace periscope::stacks {
namespace {

/// Added to the seeds of null models. A null model with the seed from which the weights were trained would reuse random
/// signs that are correlated with the weights.
constexpr std::uint64_t null_seed_offset = 0x6e756c6c00000000;

/// Records the logarithm of the stream's second moment at every depth.
class StreamMoments final : public SignalRecorder {
 public:
  explicit StreamMoments(const Backend& ops) : ops_(ops) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal != Signal::x_out || at.pass != Pass::forward) return;
    const std::vector<double> of_tokens = ops_.row_moments(x)[Statistic::second_moment];
    const double sum = std::accumulate(of_tokens.begin(), of_tokens.end(), 0.0);
    logarithms_.push_back(std::log(sum / static_cast<double>(of_tokens.size())));
  }
  [[nodiscard]] std::vector<double> take() { return std::move(logarithms_); }

 private:
  const Backend& ops_;
  std::vector<double> logarithms_;
};

/// Multiplies x [N, n] entry by entry with rows `row(0)`, `row(1)`, … of a matrix of random signs [·, n]. Entry i is
/// the sign of number i of the random stream `key`. The signs of x do not affect the distribution of the product.
template <class Row>
Tensor with_signs(const Backend& ops, const Tensor& x, StreamKey key, const Row& row) {
  const auto width = static_cast<std::size_t>(x.cols());
  const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::span<T> signs = values.subspan(i * width, width);
      fill_normal<T>(key, static_cast<std::uint64_t>(row(static_cast<std::size_t>(first) + i)) * width, 1.0, signs);
      for (T& sign : signs) sign = std::copysign(T{1}, sign);
    }
  };
  return ops.multiply(x, ops.from_rows(x.rows(), x.cols(), x.dtype(), fill));
}

}  // namespace

double NullDraws::mean(std::size_t depth) const {
  double sum = 0.0;
  for (const std::vector<double>& draw : log_moment) sum += draw.at(depth);
  return sum / static_cast<double>(log_moment.size());
}

double NullDraws::deviation_from(double centre, std::size_t depth) const {
  double squares = 0.0;
  for (const std::vector<double>& draw : log_moment) squares += std::pow(draw.at(depth) - centre, 2);
  return std::sqrt(squares / static_cast<double>(log_moment.size()));
}

double NullDraws::deviation_from_mean(std::size_t depth) const {
  const auto n = static_cast<double>(log_moment.size());
  return n < 2.0 ? std::nan("") : deviation_from(mean(depth), depth) * std::sqrt(n / (n - 1.0) * (1.0 + 1.0 / n));
}

std::vector<double> log_second_moments(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                       std::span<const int> ids, int sequences) {
  StreamMoments moments(ops);
  const StackContext context{.ops = ops, .model = model, .weights = weights, .sequences = sequences};
  const Hooks hooks{.recorders = {&moments}};
  (void)stack_forward(context, embedding_forward(context, ids, hooks), hooks);
  return moments.take();
}

StackSpec with_scales_of(const Backend& ops, StackSpec spec, const WeightSource& weights, std::span<const int> ids,
                         PreservedSizes preserved) {
  spec.scales = std::make_shared<const WeightScales>(scales_of(ops, spec.model, weights, ids, preserved));
  return spec;
}

NullDraws draw_null(const Backend& ops, const StackSpec& spec, const WeightSource& weights, std::span<const int> ids,
                    int sequences, const SizeNull& null, DType dtype, std::uint64_t first, int draws,
                    const std::function<void()>& before_each) {
  NullDraws all{.log_moment = std::vector<std::vector<double>>(static_cast<std::size_t>(draws))};
  const StackSpec sized = null.preserved ? with_scales_of(ops, spec, weights, ids, *null.preserved) : spec;
  std::mutex mutex;
  const auto draw = [&](int d) {
    {
      const std::scoped_lock lock(mutex);
      before_each();
    }
    const std::uint64_t seed = null_seed_offset + first + static_cast<std::uint64_t>(d);
    all.log_moment[static_cast<std::size_t>(d)] =
        null.preserved ? log_second_moments(ops, spec.model, GeneratedWeights(ops, sized, dtype, seed), ids, sequences)
                       : log_second_moments(ops, spec.model, RandomSigns(ops, weights, seed), ids, sequences);
  };
  parallel_for(draws, draw, is_small_pass(spec.model, static_cast<int>(ids.size()), false));
  return all;
}

SublayerWeights RandomSigns::fetch(int sublayer) const {
  SublayerWeights all = source_.fetch(sublayer);
  const auto same_row = [](std::size_t i) { return i; };
  const auto add_signs = [&](Tensor& bias, const ParameterId& of) {
    if (bias.empty()) return;
    const StreamKey key{seed_, static_cast<std::uint32_t>(of.sublayer), bias_stream(of.weight)};
    bias = with_signs(backend_, bias, key, same_row);
  };
  for (auto& [weight, linear] : all.linear) {
    const int layer = is_of_layer(weight) ? ModelSpec::layer_of(sublayer) : 0;
    const StreamKey key{seed_, static_cast<std::uint32_t>(layer), stream_of(weight)};
    linear.map = dense_map(
        [&ops = backend_, map = linear.map, key, same_row] { return with_signs(ops, map->dense(), key, same_row); });
    add_signs(linear.bias, matrix_id(layer, weight));
  }
  for (auto& [weight, norm] : all.norms) add_signs(norm.bias, gain_id(sublayer, weight));
  return all;
}

Tensor RandomSigns::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return with_signs(ops, source_.rows(ops, table, ids), {seed_, 0, stream_of(table)},
                    [&](std::size_t i) { return ids[i]; });
}

}  // namespace periscope::stacks
