#include "experiments/common/stack_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/common/compared_cells.h"
#include "experiments/common/imprecise.h"
#include "experiments/common/provenance.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

/// One version of every curve: its suffix, what it is in words, and where it is found.
struct Version {
  std::string_view suffix;
  std::string_view words;
  bool measured;  ///< which wing's profile
  Values Curve::*part;

  template <class Place>
  [[nodiscard]] const Values* find(const StackResult& r, Statistic statistic, Place place) const {
    const Profile& profile = measured ? r.measurement->profile : r.prediction.profile;
    const Curve* curve = profile.find(statistic, place);
    return curve == nullptr ? nullptr : &(curve->*part);
  }
};

std::vector<Version> versions(bool measured) {
  std::vector<Version> all{{"predicted", "prediction", false, &Curve::value},
                           {"predicted_stderr", "standard error of the prediction (sampled attention patterns)", false,
                            &Curve::standard_error}};
  if (!measured) return all;
  all.push_back({"measured", "mean over seeds", true, &Curve::value});
  all.push_back({"stderr", "standard error of the mean over seeds", true, &Curve::standard_error});
  return all;
}

/// q … down, the matrices that every layer has.
constexpr auto layer_weights = static_cast<std::size_t>(Weight::embedding);

void append(Values& target, const Values* source, std::size_t count) {
  if (source != nullptr && source->size() == count) {
    target.insert(target.end(), source->begin(), source->end());
  } else {
    target.insert(target.end(), count, nan);
  }
}

class Builder {
 public:
  Builder(const Config& config, const std::vector<StackResult>& results)
      : results_(results), model_(results.front().spec.model), measured_(results.front().measurement.has_value()) {
    const auto sublayers = static_cast<std::size_t>(model_.sublayers());
    data_.dimensions = {{"input", config.inputs.size()},
                        {"placement", config.placements.size()},
                        {"depth", sublayers + 1},
                        {"other_depth", sublayers + 1},
                        {"site", stream_signals.size()},
                        {"sublayer", sublayers},
                        {"rank", top_count}};
    if (has_weight_curves()) {
      data_.dimensions.insert(data_.dimensions.end(), {{"weight", layer_weights}, {"layer", sublayers / 2}});
    }
    data_.attributes = provenance(config);
  }

  NetcdfDataset take() {
    coordinates();
    for (const Version& version : versions(measured_)) {
      for (std::size_t s = 0; s < statistic_names.size(); ++s) {
        if (!has_curves(static_cast<Statistic>(s))) continue;
        stream_curve(static_cast<Statistic>(s), version);
        site_curves(static_cast<Statistic>(s), version);
      }
      if (!has_weight_curves()) continue;
      weight_curves(Statistic::grad_sq, version);
      weight_curves(Statistic::log_grad_sq, version);
    }
    angular();
    if (measured_) top_magnitudes();
    finite_width();
    refusals();
    if (measured_) verdicts();
    return std::move(data_);
  }

 private:
  void add(std::string name, std::vector<std::string> tail, std::variant<Values, std::vector<std::string>> values,
           std::string long_name) {
    std::vector<std::string> dimensions{"input", "placement"};
    dimensions.insert(dimensions.end(), tail.begin(), tail.end());
    const bool text = std::holds_alternative<std::vector<std::string>>(values);
    data_.variables.push_back(
        {std::move(name), std::move(dimensions), std::move(values), text ? "" : "1", std::move(long_name)});
  }

  void coordinates() {
    std::vector<std::string> inputs;
    std::vector<std::string> placements;
    for (const StackResult& r : results_) {
      const std::string input(input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
      if (inputs.empty() || inputs.back() != input) inputs.push_back(input);
      if (inputs.size() == 1) placements.push_back(placement_label(r.spec));
    }
    coordinate("input", inputs, "what enters the stack");
    coordinate("placement", placements, "normalization placement (T1)");
    std::vector<std::string> sites;
    for (const Signal site : stream_signals) sites.emplace_back(name_of(site));
    coordinate("site", sites, "place in the dataflow (T1)");
    counting("depth", 0, "sublayers passed; 0 is the stack's input");
    counting("other_depth", 0, "sublayers passed, second stream of a pair");
    counting("sublayer", 0, "sublayer; even: attention, odd: MLP");
    counting("rank", 1, "place in the order of magnitudes");
    if (!has_weight_curves()) return;
    coordinate("weight", {weight_names.begin(), weight_names.begin() + layer_weights}, "matrix of a layer");
    counting("layer", 0, "layer, attention and MLP");
  }

  void coordinate(const std::string& name, std::vector<std::string> words, std::string long_name) {
    data_.variables.push_back({name, {name}, std::move(words), "", std::move(long_name)});
  }
  void counting(const std::string& name, int first, std::string long_name) {
    Values values;
    for (const auto& [dimension, length] : data_.dimensions) {
      if (dimension != name) continue;
      for (std::size_t i = 0; i < length; ++i) values.push_back(first + static_cast<double>(i));
    }
    data_.variables.push_back({name, {name}, std::move(values), "1", std::move(long_name)});
  }

  /// True if some stack has such curves, predicted or measured: gradients are not always asked for.
  [[nodiscard]] bool has_curves(Statistic statistic) const {
    const auto has = [statistic](const Profile& p) {
      return std::ranges::any_of(p.curves, [=](const auto& item) { return item.first.first == statistic; });
    };
    return std::ranges::any_of(results_, [&](const StackResult& r) {
      return has(r.prediction.profile) || (r.measurement && has(r.measurement->profile));
    });
  }
  [[nodiscard]] bool has_weight_curves() const {
    return std::ranges::any_of(results_, [](const StackResult& r) {
      return !r.prediction.profile.weight_curves.empty() ||
             (r.measurement && !r.measurement->profile.weight_curves.empty());
    });
  }

  void weight_curves(Statistic statistic, const Version& version) {
    Values values;
    for (const StackResult& r : results_) {
      for (std::size_t weight = 0; weight < layer_weights; ++weight) {
        append(values, version.find(r, statistic, static_cast<Weight>(weight)), (depths() - 1) / 2);
      }
    }
    const auto name = statistic_names[static_cast<std::size_t>(statistic)];
    add(fmt::format("weight_{}_{}", name, version.suffix), {"weight", "layer"}, std::move(values),
        fmt::format("{} of every matrix: {}", name, version.words));
  }

  void stream_curve(Statistic statistic, const Version& version) {
    if (statistic == Statistic::branch_ratio || statistic == Statistic::branch_cosine) return;
    if (statistic == Statistic::score_share) return;
    Values values;
    for (const StackResult& r : results_) append(values, version.find(r, statistic, Signal::x_out), depths());
    const auto name = statistic_names[static_cast<std::size_t>(statistic)];
    add(fmt::format("{}_{}", name, version.suffix), {"depth"}, std::move(values),
        fmt::format("{} of the stream: {}", name, version.words));
  }

  void site_curves(Statistic statistic, const Version& version) {
    Values values;
    for (const StackResult& r : results_) {
      for (std::size_t site = 0; site < stream_signals.size(); ++site) {
        const Values* found = version.find(r, statistic, stream_signals[site]);
        if (found != nullptr && found->size() == depths()) {
          values.insert(values.end(), found->begin() + 1, found->end());  // x_out: drop the stack's input
        } else {
          append(values, found, depths() - 1);
        }
      }
    }
    const auto name = statistic_names[static_cast<std::size_t>(statistic)];
    add(fmt::format("site_{}_{}", name, version.suffix), {"site", "sublayer"}, std::move(values),
        fmt::format("{} at every site of every sublayer: {}", name, version.words));
  }

  void angular() {
    Values predicted;
    Values measured;
    for (const StackResult& r : results_) {
      append(predicted, &r.prediction.profile.angular_distance, depths() * depths());
      if (measured_) append(measured, &r.measurement->profile.angular_distance, depths() * depths());
    }
    const std::string words = "angular distance arccos(cos)/pi between the stream at two depths: ";
    add("angular_distance_predicted", {"depth", "other_depth"}, std::move(predicted), words + "prediction");
    if (measured_) {
      add("angular_distance_measured", {"depth", "other_depth"}, std::move(measured), words + "mean over seeds");
    }
  }

  void top_magnitudes() {
    Values values;
    for (const StackResult& r : results_) {
      for (std::size_t site = 0; site < stream_signals.size(); ++site) {
        const auto found = r.measurement->top.find(stream_signals[site]);
        for (std::size_t l = 0; l + 1 < depths(); ++l) {
          Values row = found == r.measurement->top.end() ? Values{} : found->second[l];
          row.resize(top_count, nan);
          values.insert(values.end(), row.begin(), row.end());
        }
      }
    }
    add("top_magnitudes", {"site", "sublayer", "rank"}, std::move(values), "largest |x| over all tokens and seeds");
  }

  void finite_width() {
    Values values;
    for (const StackResult& r : results_) append(values, &r.prediction.finite_width, depths());
    add("finite_width", {"depth"}, std::move(values), "finite-width factor w of T19 (the term is c*w)");
  }

  /// What theory does not predict, or not as precisely as was wanted.
  void refusals() {
    std::vector<std::string> reasons;
    for (const StackResult& r : results_) reasons.push_back(r.prediction.refusal);
    add("theory_refusal", {}, std::move(reasons), "why there is no prediction");
    std::vector<std::string> imprecise;
    for (const StackResult& r : results_) {
      imprecise.push_back(fmt::format("{}", fmt::join(imprecise_names(r.prediction), "; ")));
    }
    add("theory_imprecise", {}, std::move(imprecise),
        "predicted gradients and score shares whose standard error is larger than wanted (theory.gradient_tolerance)");
  }

  void verdicts() {
    Values diverged_seeds;
    Values diverged_at;
    for (const StackResult& r : results_) {
      diverged_seeds.push_back(r.measurement->diverged_seeds);
      diverged_at.push_back(r.measurement->diverged_at < 0 ? nan : r.measurement->diverged_at);
    }
    add("diverged_seeds", {}, std::move(diverged_seeds), "seeds whose stream stopped being finite");
    add("diverged_at", {}, std::move(diverged_at), "first sublayer at which one did");
    std::vector<std::string> words;
    std::vector<std::string> reasons;
    Values beyond;
    Values critical;
    for (const StackResult& r : results_) {
      const Agreement& a = r.agreement;
      words.emplace_back(name_of(a.verdict));
      reasons.push_back(a.reason);
      beyond.push_back(a.worst < 0 ? nan : a.cells[static_cast<std::size_t>(a.worst)].excess());
      critical.push_back(a.worst < 0 ? nan : a.critical);
    }
    add("verdict", {}, std::move(words), "agreement of measurement and theory (T19)");
    add("verdict_reason", {}, std::move(reasons), "why the verdict is inconclusive or was not given");
    add("worst_excess", {}, std::move(beyond), "worst cell: standard errors beyond its allowance");
    add("worst_critical", {}, std::move(critical), "worst cell: where it would be rejected");
    power();
  }

  /// T22: of every cell of the stream, of modules and of matrices, and the worst and the median of all.
  void power() {
    Values worst;
    Values median;
    std::vector<std::string> by;
    for (const StackResult& r : results_) {
      worst.push_back(r.agreement.worst < 0 ? nan : r.agreement.power.worst);
      median.push_back(r.agreement.worst < 0 ? nan : r.agreement.power.median);
      by.push_back(r.agreement.by);
    }
    const std::string words = "error that would have been rejected with 95 % probability (T22)";
    add("power_worst", {}, std::move(worst), words + ": the cell that could hide the largest");
    add("power_median", {}, std::move(median), words + ": median over cells");
    add("rejected_by", {}, std::move(by), "cell that rejected theory");
    for (const auto& [statistic, site] : compared_curves) {
      const bool stream = site == Signal::x_out || site == Signal::r_out;
      const std::size_t length = depths() - (stream ? 0 : 1);
      Values values;
      for (const StackResult& r : results_) {
        Values row(length, nan);
        for (const Cell& cell : r.agreement.cells) {
          if (!cell.contrast.empty() || cell.weight || cell.statistic != statistic || cell.site != site) continue;
          row.at(static_cast<std::size_t>(cell.index)) = cell.smallest_rejected(r.agreement.level);
        }
        values.insert(values.end(), row.begin(), row.end());
      }
      if (std::ranges::all_of(values, [](double v) { return std::isnan(v); })) continue;
      const auto name = statistic_names[static_cast<std::size_t>(statistic)];
      const auto place = name_of(site);
      add(site == Signal::x_out ? fmt::format("{}_power", name) : fmt::format("{}_{}_power", place, name),
          {stream ? "depth" : "sublayer"}, std::move(values), fmt::format("{} of {}: {}", name, place, words));
    }
    if (!has_weight_curves()) return;
    const std::size_t layers = (depths() - 1) / 2;
    Values values;
    for (const StackResult& r : results_) {
      Values rows(layer_weights * layers, nan);
      for (const Cell& cell : r.agreement.cells) {
        if (!cell.contrast.empty() || !cell.weight || !is_of_layer(*cell.weight)) continue;
        rows.at(static_cast<std::size_t>(*cell.weight) * layers + static_cast<std::size_t>(cell.index)) =
            cell.smallest_rejected(r.agreement.level);
      }
      values.insert(values.end(), rows.begin(), rows.end());
    }
    add("weight_log_grad_sq_power", {"weight", "layer"}, std::move(values), "log_grad_sq of every matrix: " + words);
  }

  [[nodiscard]] std::size_t depths() const { return static_cast<std::size_t>(model_.sublayers()) + 1; }

  const std::vector<StackResult>& results_;
  const ModelSpec& model_;
  bool measured_;
  NetcdfDataset data_;
};

}  // namespace

NetcdfDataset stack_dataset(const Config& config, const std::vector<StackResult>& results) {
  return Builder(config, results).take();
}

}  // namespace periscope
