#include "experiments/engine/run/cached_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "experiments/engine/run/cell_journal.h"
#include "sim/model/parameters.h"

namespace periscope::stacks {
namespace {

using Json = nlohmann::ordered_json;

template <class Curves>
Json curves_json(const Curves& curves) {
  Json json = Json::array();
  for (const auto& [key, curve] : curves) {
    json.push_back({static_cast<int>(key.first), static_cast<int>(key.second), bits_of(curve.value)});
  }
  return json;
}

using SignalKeys = std::set<std::pair<Statistic, Signal>>;
using WeightKeys = std::set<std::pair<Statistic, Weight>>;

/// Returns whether the maximum of a sum before norm C is measured.
bool has_sum(const ModelSpec& model) {
  for (int s = 0; s < model.steps(); ++s) {
    const Step step = model.step(s);
    for (std::size_t i = 0; i < step.norm_c.size(); ++i) {
      if (step.norm_c[i] && model.ends().names[i] == Signal::x_out) return true;
    }
  }
  return false;
}

/// The curves of a reading: six statistics of every signal of the stream, the branch beside the stream, and on the way
/// back gradients.
SignalKeys signal_keys(const ModelSpec& model, bool backward) {
  SignalKeys keys{{Statistic::branch_ratio, Signal::B_out}, {Statistic::branch_cosine, Signal::B_out}};
  for (const Signal signal : stream_signals) {
    if (signal == Signal::r_out && !model.ends().has(Signal::r_out)) continue;
    for (const Statistic s : {Statistic::second_moment, Statistic::variance, Statistic::mean, Statistic::kurtosis,
                              Statistic::maximum, Statistic::token_cosine}) {
      keys.emplace(s, signal);
    }
    if (!backward) continue;
    keys.emplace(Statistic::grad_sq, signal);
    keys.emplace(Statistic::log_grad_sq, signal);
  }
  if (has_sum(model)) keys.emplace(Statistic::maximum, Signal::sum);
  if (backward) keys.emplace(Statistic::score_share, Signal::A_out);
  return keys;
}

WeightKeys weight_keys(const ModelSpec& model, bool backward) {
  WeightKeys keys;
  if (!backward) return keys;
  for (int sublayer = 0; sublayer < model.sublayers(); ++sublayer) {
    for (const Weight weight : weights_in(model, sublayer)) {
      if (!is_layer_matrix(weight)) continue;
      keys.emplace(Statistic::grad_sq, weight);
      keys.emplace(Statistic::log_grad_sq, weight);
    }
  }
  return keys;
}

/// Reads exactly the curves of `keys`, each of length_of(key's second).
template <class Curves, class Keys, class LengthOf>
void read_curves(const JournalPart& part, const Keys& keys, const LengthOf& length_of, Curves& curves) {
  using Key = typename Curves::key_type;
  for (const JournalPart& entry : part.entries(keys.size())) {
    constexpr int most = std::numeric_limits<int>::max();
    const int statistic = entry.at(std::size_t{0}).whole(0, most);
    const int place = entry.at(std::size_t{1}).whole(0, most);
    const auto key = std::ranges::find_if(keys, [&](const Key& k) {
      return static_cast<int>(k.first) == statistic && static_cast<int>(k.second) == place;
    });
    if (key == keys.end() || curves.contains(*key)) entry.refuse("a curve that this run measures, once");
    curves[*key].value = entry.at(std::size_t{2}).values(length_of(key->second));
  }
}

}  // namespace

Json cached_json(const Reading& reading) {
  Json top = Json::array();
  for (const auto& [signal, sublayers] : reading.top) {
    Json rows = Json::array();
    for (const std::vector<double>& row : sublayers) rows.push_back(bits_of(row));
    top.push_back({static_cast<int>(signal), rows});
  }
  return {{"curves", curves_json(reading.profile.curves)},
          {"weights", curves_json(reading.profile.weight_curves)},
          {"angles", bits_of(reading.profile.angular_distance)},
          {"top", top},
          {"diverged_at", reading.diverged_at}};
}

Reading cached_reading(const JournalPart& cell, const ModelSpec& model, bool backward) {
  const auto sublayers = static_cast<std::size_t>(model.sublayers());
  const std::size_t depths = model.depths();
  const bool has_angles = depths <= angular_depths && model.ends().parts_of_stream() == 1;
  Reading reading;
  read_curves(
      cell.at("curves"), signal_keys(model, backward), [&](Signal signal) { return model.curve_length(signal); },
      reading.profile.curves);
  read_curves(
      cell.at("weights"), weight_keys(model, backward), [&](Weight) { return static_cast<std::size_t>(model.layers); },
      reading.profile.weight_curves);
  reading.profile.angular_distance = cell.at("angles").values(has_angles ? depths * depths : 0);
  for (const JournalPart& entry : cell.at("top").entries()) {
    const auto signal =
        static_cast<Signal>(entry.at(std::size_t{0}).whole(0, static_cast<int>(signal_names.size()) - 1));
    if (!is_stream_signal(signal) || reading.top.contains(signal)) entry.refuse("a signal of the stream, once");
    for (const JournalPart& row : entry.at(std::size_t{1}).entries(sublayers)) {
      reading.top[signal].push_back(row.values());
      if (reading.top[signal].back().size() > top_count) row.refuse(fmt::format("at most {} numbers", top_count));
    }
  }
  reading.diverged_at = cell.at("diverged_at").whole(-1, model.sublayers() - 1);
  return reading;
}

}  // namespace periscope::stacks
