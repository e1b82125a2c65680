#include "experiments/engine/run/size_nulls.h"

#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/random_signs.h"
#include "sim/base/first_exception.h"
#include "sim/model/input.h"
#include "sim/model/stack.h"

namespace periscope::stacks {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Added to the seeds of null models. Weights that were trained from seed s remember the signs of s's numbers: a null
/// of that seed would give all of their entries one sign.
constexpr std::uint64_t null_seeds = 0x6e756c6c00000000;

/// Notes the stream's second moment at every depth.
class StreamMoments final : public SignalRecorder {
 public:
  explicit StreamMoments(const Backend& ops) : ops_(ops) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal != Signal::x_out || at.pass != Pass::forward) return;
    const std::vector<double> of_tokens = ops_.row_moments(x).second_moment;
    const double sum = std::accumulate(of_tokens.begin(), of_tokens.end(), 0.0);
    logarithms_.push_back(std::log(sum / static_cast<double>(of_tokens.size())));
  }
  [[nodiscard]] std::vector<double> take() { return std::move(logarithms_); }

 private:
  const Backend& ops_;
  std::vector<double> logarithms_;
};

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
  return n < 2.0 ? nan : deviation_from(mean(depth), depth) * std::sqrt(n / (n - 1.0) * (1.0 + 1.0 / n));
}

std::vector<double> log_second_moments(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                       std::span<const int> ids, int sequences) {
  StreamMoments moments(ops);
  const StackContext context{.ops = ops, .model = model, .weights = weights, .sequences = sequences};
  const Hooks hooks{.recorders = {&moments}};
  (void)stack_forward(context, embedding_forward(context, ids, hooks), hooks);
  return moments.take();
}

StackSpec at_sizes(const Backend& ops, StackSpec spec, const WeightSource& weights, std::span<const int> ids,
                   SizesKept kept) {
  spec.scales = std::make_shared<const WeightScales>(scales_of(ops, spec.model, weights, ids, kept));
  return spec;
}

NullDraws draw_null(const Backend& ops, const StackSpec& spec, const WeightSource& weights, std::span<const int> ids,
                    int sequences, const SizeNull& null, DType dtype, std::uint64_t first, int draws,
                    const std::function<void()>& before_each) {
  NullDraws all{.draws = draws, .log_moment = std::vector<std::vector<double>>(static_cast<std::size_t>(draws))};
  const StackSpec sized = null.kept ? at_sizes(ops, spec, weights, ids, *null.kept) : spec;
  const auto measure = [&](int d) {
    const std::uint64_t seed = null_seeds + first + static_cast<std::uint64_t>(d);
    if (!null.kept) return log_second_moments(ops, spec.model, RandomSigns(ops, weights, seed), ids, sequences);
    return log_second_moments(ops, spec.model, GeneratedWeights(ops, sized, dtype, seed), ids, sequences);
  };
  const bool parallel = is_small_pass(spec.model, static_cast<int>(ids.size()), false);
  std::mutex mutex;
  FirstException failure;
#pragma omp parallel for schedule(dynamic, 1) if (parallel)
  for (int d = 0; d < draws; ++d) {
    failure.run([&] {
      {
        const std::scoped_lock lock(mutex);
        before_each();
      }
      all.log_moment[static_cast<std::size_t>(d)] = measure(d);
    });
  }
  failure.rethrow();
  return all;
}

}  // namespace periscope::stacks
