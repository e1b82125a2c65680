#include "experiments/engine/run/cached_prediction.h"

#include <fmt/format.h>

#include <limits>

#include "experiments/engine/run/cell_journal.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/settings/weights_choice.h"

namespace periscope::stacks {
namespace {

using Json = nlohmann::ordered_json;
constexpr int largest_count = std::numeric_limits<int>::max();

template <class Curves>
Json predicted_curves_json(const Curves& curves) {
  Json json = Json::array();
  for (const auto& [key, curve] : curves) {
    json.push_back({static_cast<int>(key.first), static_cast<int>(key.second), bits_of(curve.value),
                    bits_of(curve.standard_error)});
  }
  return json;
}

Json predicted_profile_json(const Profile& profile) {
  return {{"curves", predicted_curves_json(profile.curves)},
          {"weights", predicted_curves_json(profile.weight_curves)},
          {"angles", bits_of(profile.angular_distance)}};
}

/// Reads curves whose second key has one of `places` names, each of length_of(place) entries.
template <class Place, class Curves, class LengthOf>
void read_predicted_curves(const JournalPart& part, std::size_t places, const LengthOf& length_of, Curves& curves) {
  for (const JournalPart& entry : part.entries()) {
    const int statistic = entry.at(std::size_t{0}).whole(0, static_cast<int>(statistic_facts.size()) - 1);
    const int place = entry.at(std::size_t{1}).whole(0, static_cast<int>(places) - 1);
    Curve& curve = curves[{static_cast<Statistic>(statistic), static_cast<Place>(place)}];
    if (!curve.value.empty()) entry.refuse("every curve once");
    const std::size_t length = length_of(static_cast<Place>(place));
    curve.value = entry.at(std::size_t{2}).values(length);
    curve.standard_error = entry.at(std::size_t{3}).values();
    if (!curve.standard_error.empty() && curve.standard_error.size() != length) {
      entry.refuse(fmt::format("{} standard errors, or none", length));
    }
  }
}

Profile profile_of(const JournalPart& part, const ModelSpec& model) {
  Profile profile;
  read_predicted_curves<Signal>(
      part.at("curves"), signal_names.size(), [&](Signal signal) { return model.curve_length(signal); },
      profile.curves);
  read_predicted_curves<Weight>(
      part.at("weights"), weight_names.size(), [&](Weight) { return static_cast<std::size_t>(model.layers); },
      profile.weight_curves);
  profile.angular_distance = part.at("angles").values();
  const std::size_t depths = model.depths();
  if (!profile.angular_distance.empty() && profile.angular_distance.size() != depths * depths) {
    part.at("angles").refuse(fmt::format("{} numbers, or none", depths * depths));
  }
  return profile;
}

/// Throws InputError unless the stream's second moment is there, which every prediction has.
void require_stream(const JournalPart& part, const Profile& profile) {
  if (profile.find(Statistic::second_moment, Signal::x_out) == nullptr) part.refuse("the stream's second moment");
}

}  // namespace

std::string prediction_key(std::string_view what, const StackSpec& measured, const StackSpec& overridden,
                           const config::Config& config) {
  const Json all{config::resolved_json(measured, true),
                 config::resolved_json(overridden, true),
                 config::section_json(config::theory_section, config.theory, true),
                 run_of(config, measured).seed,
                 config.run.seeds,
                 config.run.backward,
                 config::weights_used(measured, config.run)};
  return fmt::format("{} {}", what, config::sha256_hex(config::json_text(all)).substr(0, 16));
}

bool is_worth_keeping(const theory::Prediction& prediction) {
  constexpr std::size_t most_numbers = 4'000'000;  // 64 MB of text
  std::size_t numbers = 0;
  for (const Profile& draw : prediction.draws) {
    for (const auto& [key, curve] : draw.curves) numbers += curve.value.size();
  }
  return numbers <= most_numbers;
}

Json cached_prediction_json(const theory::Prediction& p) {
  Json json{{"profile", predicted_profile_json(p.profile)},
            {"refusal", p.refusal},
            {"gradient_refusal", p.gradient_refusal},
            {"left_out", p.left_out},
            {"finite_width", bits_of(p.finite_width)},
            {"tolerances", bits_of(std::vector{p.tolerance, p.gradient_tolerance})},
            {"counts", {p.replicates, p.samples, p.backward_samples}},
            {"exact_at_width", p.exact_at_width}};
  if (!p.exact_at_width) return json;
  json["limit"] = predicted_profile_json(p.limit);
  json["spread"] = predicted_profile_json(p.spread);
  json["chain"] = {p.finite_width_replicates, p.finite_width_degrees, p.draws_per_sequence};
  json["replicates_given"] = p.replicates_given;
  Json& draws = json["draws"] = Json::array();
  for (const Profile& draw : p.draws) draws.push_back(predicted_profile_json(draw));
  return json;
}

theory::Prediction cached_prediction(const JournalPart& cell, const ModelSpec& model) {
  theory::Prediction p;
  p.refusal = cell.at("refusal").text();
  p.gradient_refusal = cell.at("gradient_refusal").text();
  p.left_out = cell.at("left_out").text();
  p.profile = profile_of(cell.at("profile"), model);
  if (p.refusal.empty()) require_stream(cell.at("profile"), p.profile);
  const std::size_t depths = model.depths();
  p.finite_width = cell.at("finite_width").values();
  if (p.finite_width.size() != depths && (p.refusal.empty() || !p.finite_width.empty())) {
    cell.at("finite_width").refuse(fmt::format("{} numbers", depths));
  }
  const std::vector<double> tolerances = cell.at("tolerances").values(2);
  p.tolerance = tolerances[0];
  p.gradient_tolerance = tolerances[1];
  const std::vector<JournalPart> counts = cell.at("counts").entries(3);
  p.replicates = counts[0].whole(0, largest_count);
  p.samples = counts[1].whole(0, largest_count);
  p.backward_samples = counts[2].whole(0, largest_count);
  p.exact_at_width = cell.at("exact_at_width").flag();
  if (!p.exact_at_width) return p;
  p.limit = profile_of(cell.at("limit"), model);
  p.spread = profile_of(cell.at("spread"), model);
  require_stream(cell.at("limit"), p.limit);
  require_stream(cell.at("spread"), p.spread);
  const std::vector<JournalPart> chain = cell.at("chain").entries(3);
  p.finite_width_replicates = chain[0].whole(1, largest_count);
  p.finite_width_degrees = chain[1].whole(0, largest_count);
  p.draws_per_sequence = chain[2].whole(1, largest_count);
  p.replicates_given = cell.at("replicates_given").flag();
  for (const JournalPart& draw : cell.at("draws").entries(static_cast<std::size_t>(p.finite_width_replicates))) {
    p.draws.push_back(profile_of(draw, model));
    require_stream(draw, p.draws.back());
  }
  return p;
}

}  // namespace periscope::stacks
