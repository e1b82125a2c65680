#include "sim/measure/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Probe::Probe(const StackContext& context) : context_(context) {}

Curve& Probe::curve(Statistic statistic, Signal site) {
  Curve& c = reading_.profile.curves[{statistic, site}];
  if (c.value.empty()) {
    const bool stream = site == Signal::x_out || site == Signal::r_out;
    c.value.assign(static_cast<std::size_t>(context_.model.sublayers() + (stream ? 1 : 0)), nan);
  }
  return c;
}

void Probe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward || !is_stream_signal(at.signal)) return;
  const bool of_input = at.sublayer < 0;
  const bool stream = at.signal == Signal::x_out || at.signal == Signal::r_out;
  if (of_input && at.signal == Signal::x_out) choose_tokens(x.rows());
  record(stream ? at.sublayer + 1 : at.sublayer, at.signal, x);
  if (at.signal == Signal::x_out) keep_for_angles(x);
  if (of_input) return;
  auto& top = reading_.top[at.signal];
  top.resize(static_cast<std::size_t>(context_.model.sublayers()));
  top[static_cast<std::size_t>(at.sublayer)] = read(x).top;
  if (at.signal == Signal::x_in) stream_ = x;
  if (at.signal == Signal::B_out) record_branch(at.sublayer, x);
}

void Probe::choose_tokens(Tensor::Index tokens) {
  const auto kept = static_cast<int>(std::min<Tensor::Index>(tokens, angular_tokens));
  for (int i = 0; i < kept; ++i) {
    kept_tokens_.push_back(static_cast<int>((i + 0.5) * static_cast<int>(tokens) / kept));
  }
}

const Probe::SignalReading& Probe::read(const Tensor& x) {
  for (const SignalReading& r : recent_) {
    if (r.signal.same_as(x)) return r;
  }
  const RowMoments m = context_.ops.row_moments(x);
  SignalReading& r = recent_[oldest_];
  oldest_ = (oldest_ + 1) % recent_.size();
  r = {.signal = x,
       .second_moment = mean_of(m.second_moment),
       .variance = mean_of(m.variance),
       .mean = mean_of(m.mean),
       .kurtosis = mean_of(m.kurtosis),
       .maximum = *std::ranges::max_element(m.maximum),
       .token_cosine = context_.ops.token_cosine(x, context_.sequences),
       .top = context_.ops.top_magnitudes(x, top_count)};
  if (!std::isfinite(r.second_moment)) r.maximum = r.second_moment;  // NaN has no order
  return r;
}

void Probe::record(int index, Signal site, const Tensor& x) {
  const SignalReading& r = read(x);
  const auto i = static_cast<std::size_t>(index);
  curve(Statistic::second_moment, site).value[i] = r.second_moment;
  curve(Statistic::variance, site).value[i] = r.variance;
  curve(Statistic::mean, site).value[i] = r.mean;
  curve(Statistic::kurtosis, site).value[i] = r.kurtosis;
  curve(Statistic::maximum, site).value[i] = r.maximum;
  curve(Statistic::token_cosine, site).value[i] = r.token_cosine;
  const bool diverged = site == Signal::x_out && !std::isfinite(r.second_moment);
  if (diverged && reading_.diverged_at < 0) reading_.diverged_at = std::max(index - 1, 0);
}

void Probe::record_branch(int sublayer, const Tensor& branch) {
  const SublayerRule rule = context_.model.rule(sublayer);
  const std::vector<double> bb = context_.ops.row_dots(branch, branch);
  const std::vector<double> xx = context_.ops.row_dots(stream_, stream_);
  const std::vector<double> bx = context_.ops.row_dots(branch, stream_);
  double ratio = 0.0;
  double cosine = 0.0;
  for (std::size_t t = 0; t < bb.size(); ++t) {
    ratio += std::abs(rule.beta / rule.alpha) * std::sqrt(bb[t] / xx[t]);
    cosine += bx[t] / std::sqrt(bb[t] * xx[t]);
  }
  const auto l = static_cast<std::size_t>(sublayer);
  curve(Statistic::branch_ratio, Signal::B_out).value[l] = ratio / static_cast<double>(bb.size());
  curve(Statistic::branch_cosine, Signal::B_out).value[l] = cosine / static_cast<double>(bb.size());
}

void Probe::keep_for_angles(const Tensor& x) {
  if (kept_.size() <= angular_depths) kept_.push_back(context_.ops.gather(x, kept_tokens_));
}

void Probe::fill_angles() {
  if (kept_.size() > angular_depths) return;
  const std::size_t depths = kept_.size();
  std::vector<std::vector<double>> squares;
  for (const Tensor& x : kept_) squares.push_back(context_.ops.row_dots(x, x));
  std::vector<double>& distance = reading_.profile.angular_distance;
  distance.assign(depths * depths, 0.0);
  for (std::size_t i = 0; i < depths; ++i) {
    distance[i * depths + i] = std::isfinite(mean_of(squares[i])) ? 0.0 : nan;
    for (std::size_t j = i + 1; j < depths; ++j) {
      const std::vector<double> dots = context_.ops.row_dots(kept_[i], kept_[j]);
      double sum = 0.0;
      for (std::size_t t = 0; t < dots.size(); ++t) {
        sum += std::acos(std::clamp(dots[t] / std::sqrt(squares[i][t] * squares[j][t]), -1.0, 1.0));
      }
      distance[i * depths + j] = sum / (std::numbers::pi * static_cast<double>(dots.size()));
      distance[j * depths + i] = distance[i * depths + j];
    }
  }
}

Reading Probe::take() {
  fill_angles();
  kept_.clear();
  return std::move(reading_);
}

}  // namespace periscope
