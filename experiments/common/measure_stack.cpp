#include <fmt/format.h>

#include "experiments/common/over_seeds.h"
#include "experiments/common/stacks.h"
#include "experiments/common/token_ids.h"
#include "experiments/results/json_text.h"
#include "experiments/results/sha256.h"
#include "sim/measure/gradient_probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {
namespace {

Reading read_seed(const Backend& backend, const StackSpec& spec, const RunOptions& run, std::uint64_t seed) {
  const GeneratedWeights weights(backend, spec, run.dtype, seed);
  const StackContext context{.ops = backend, .model = spec.model, .weights = weights};
  const Tensor input = stack_input(context, spec, run.dtype, seed);
  Probe probe(context);
  if (!run.backward) {
    stack_forward(context, input, {.recorders = {&probe}});
    return probe.take();
  }
  GradientProbe gradients(context);
  backpropagate(context, input, label_ids(spec, seed), {.recorders = {&probe, &gradients}, .gradients = {&gradients}});
  Reading reading = probe.take();
  gradients.take_into(reading.profile);
  return reading;
}

template <class Curves>
nlohmann::ordered_json curves_json(const Curves& curves) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [key, curve] : curves) {
    json.push_back({static_cast<int>(key.first), static_cast<int>(key.second), bits_of(curve.value)});
  }
  return json;
}

template <class Curves>
void read_curves(const nlohmann::ordered_json& json, Curves& curves) {
  using Key = typename Curves::key_type;
  for (const auto& entry : json) {
    const Key key{static_cast<Statistic>(entry.at(0).get<int>()),
                  static_cast<typename Key::second_type>(entry.at(1).get<int>())};
    curves[key].value = values_of(entry.at(2));
  }
}

/// A reading to its last bit; it has no standard errors.
nlohmann::ordered_json json_of(const Reading& reading) {
  nlohmann::ordered_json top = nlohmann::ordered_json::array();
  for (const auto& [signal, sublayers] : reading.top) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const std::vector<double>& row : sublayers) rows.push_back(bits_of(row));
    top.push_back({static_cast<int>(signal), rows});
  }
  return {{"curves", curves_json(reading.profile.curves)},
          {"weights", curves_json(reading.profile.weight_curves)},
          {"angles", bits_of(reading.profile.angular_distance)},
          {"top", top},
          {"diverged_at", reading.diverged_at}};
}

Reading reading_of(const nlohmann::ordered_json& json) {
  Reading reading;
  read_curves(json.at("curves"), reading.profile.curves);
  read_curves(json.at("weights"), reading.profile.weight_curves);
  reading.profile.angular_distance = values_of(json.at("angles"));
  for (const auto& entry : json.at("top")) {
    auto& rows = reading.top[static_cast<TopMagnitudes::key_type>(entry.at(0).get<int>())];
    for (const auto& row : entry.at(1)) rows.push_back(values_of(row));
  }
  reading.diverged_at = json.at("diverged_at");
  return reading;
}

}  // namespace

bool one_seed_per_thread(const StackSpec& spec) {
  constexpr long largest = 4L << 20U;  // entries of a matrix
  return static_cast<long>(spec.model.mlp_width) * spec.model.width <= largest;
}

std::string seeds_key(std::string_view what, const StackSpec& spec, const RunOptions& run) {
  const nlohmann::ordered_json all{resolved_json(spec, true), name_of(run.dtype), run.device, run.backward};
  return fmt::format("{} {}", what, sha256_hex(json_text(all)).substr(0, 16));
}

Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed) {
  const std::vector<int> ids = token_ids(spec, seed);
  return ids.empty() ? gaussian_input(context.ops, spec, dtype, seed) : embedding_forward(context, ids);
}

SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const RunOptions& run, int seeds,
                          Progress& progress, const std::function<void(const Reading&)>& on_seed) {
  SeedAverage average;
  over_kept_seeds(
      "reading", spec, run, seeds, progress, [&](std::uint64_t seed) { return read_seed(backend, spec, run, seed); },
      json_of, reading_of,
      [&](const Reading& reading) {
        average.add(reading);
        on_seed(reading);
      });
  return average;
}

}  // namespace periscope
