#pragma once

#include <string>

#include "experiments/common/findings.h"
#include "experiments/common/netcdf_file.h"
#include "experiments/gradients/config.h"
#include "theory/predict.h"

namespace periscope {

/// What a gradient experiment hands over: every number for files, a table for people, and whether theory was rejected.
struct GradientOutcome {
  NetcdfDataset data;
  std::string table;
  bool rejected = false;
  bool stopped_early = false;  ///< there is nothing to hand over
};

/// Theory's gradients of the stack that it is told, `told`, for the token ids and labels of the run's seeds of the
/// stack that is measured, `spec`: the same unless --theory-set says otherwise.
theory::Prediction predict_gradients(const Config& config, const StackSpec& spec, const StackSpec& told,
                                     theory::GradientPaths paths = theory::GradientPaths::all);

/// log ‖∂loss/∂·‖ = ½ log_grad_sq of a place (a Signal or a Weight), measured or predicted.
template <class Place>
Curve log_norm(const Profile& profile, Place place) {
  Curve curve = *profile.find(Statistic::log_grad_sq, place);
  for (double& v : curve.value) v *= 0.5;
  for (double& e : curve.standard_error) e *= 0.5;
  return curve;
}

/// Whether every point of that prediction is as precise as was wanted: no finding may rest on one that is not.
template <class Place>
std::vector<bool> log_norm_precise(const theory::Prediction& prediction, Place place) {
  const Curve& curve = *prediction.profile.find(Statistic::log_grad_sq, place);
  std::vector<bool> precise;
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    precise.push_back(theory::is_precise(prediction, Statistic::log_grad_sq, curve, i));
  }
  return precise;
}

/// What T19 lets the mean over seeds of a log norm at `depth` differ by: half of what `judge` allows log_grad_sq, that
/// is ½c·gradient_width_term, and `variance`, that of the log norm over seeds.
double log_norm_bias(const Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention = false);

/// "-0.492 ± 0.013", the error with two digits; "-" for what is not there.
std::string plus_minus(const Estimate& estimate);
/// "agrees", or "disagrees (5.1 / 3.9)" with the excess and its limit, or "inconclusive (could be off by 0.3; limit
/// 0.25)" with the reason.
std::string verdict_words(const Finding& finding);

/// Writes variables that share leading dimensions, one row per call of `append`.
class Columns {
 public:
  Columns(NetcdfDataset& data, std::vector<std::string> dimensions) : data_(data), dimensions_(std::move(dimensions)) {}
  /// Appends numbers (or words) to variable `name`, which exists from its first call on with the further dimensions
  /// `tail`.
  void add(const std::string& name, std::vector<double> values, const std::string& long_name,
           const std::vector<std::string>& tail = {});
  void add(const std::string& name, const std::string& word, const std::string& long_name);
  /// name_measured, name_stderr, name_predicted, name_predicted_stderr, name_power, name_verdict, name_verdict_reason.
  void add(const std::string& name, const Finding& finding, const std::string& long_name);
  /// name and name_reason: the verdict, and why it is inconclusive. `finding` is null where there is none to judge.
  void add_verdict(const std::string& name, const Finding* finding, const std::string& long_name);
  /// name_measured, name_stderr and name_predicted, name_predicted_stderr along one more dimension.
  void add(const std::string& name, const Curve& measured, const Curve& predicted, const std::string& long_name,
           const std::string& along);

 private:
  NetcdfVariable& variable(const std::string& name, const std::string& long_name, const std::vector<std::string>& tail,
                           bool text);
  NetcdfDataset& data_;
  std::vector<std::string> dimensions_;
};

}  // namespace periscope
