#include "sim/measure/probe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "sim/numerics/larger.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double growth_rounding(double unit_roundoff, Tensor::Index width) {
  const double stored = rounding_bound(3.0, unit_roundoff);
  return 2.0 * stored + stored * stored + 4.0 * rounding_bound(static_cast<double>(width) + 8.0, fp64.unit_roundoff());
}

Probe::Probe(const StackContext& context, bool growth, const std::vector<int>& lengths)
    : context_(context), with_growth_(growth), parts_(context.model.ends().parts_of_stream()), record_(context.ops) {
  int first = 0;
  for (const int length : lengths) {
    std::vector<int> rows(static_cast<std::size_t>(length));
    std::iota(rows.begin(), rows.end(), first);
    first += length;
    if (length > 1) sequences_.push_back(std::move(rows));
  }
}

void Probe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward) return;
  if (at.signal == Signal::sum) {
    const Step step = context_.model.step(at.sublayer);
    const bool norm_c = step.norm_c[static_cast<std::size_t>(at.part)];
    if (norm_c) sums_.push_back({at.sublayer, record_.measure(x, {.squares = with_growth_, .top_magnitudes = 1})});
    // Without norm C the sum equals x_out, which is measured only once.
    if (with_growth_ && at.part == 0 && step.is_one_addition() && !branches_.empty())
      branches_.back().sum = norm_c ? sums_.back().slot : measure(x);
  }
  if (!is_stream_signal(at.signal)) return;
  const bool of_input = at.sublayer < 0;
  const bool stream = runs_over_depth(at.signal);
  if (of_input && at.signal == Signal::x_out && at.part == 0) choose_tokens(x.rows());
  const Slot slot = measure(x);
  places_.push_back({stream ? at.sublayer + 1 : at.sublayer, at.sublayer, at.signal, slot, at.part});
  if (at.signal == Signal::x_in) {
    for (const int other : context_.model.sublayers_sharing_input(at.sublayer))
      places_.push_back({other, other, at.signal, slot});
  }
  if (at.signal == Signal::x_out && parts_ == 1) store_for_angles(x);
  if (at.signal == Signal::x_in) stream_ = {x, slot};
  if (at.signal == Signal::B_out) {
    branches_.push_back({at.sublayer, stream_.slot, slot, record_.measure(x, {.dots_with = stream_.signal})});
  }
}

void Probe::choose_tokens(Tensor::Index tokens) {
  const auto count = static_cast<int>(std::min<Tensor::Index>(tokens, angular_tokens));
  for (int i = 0; i < count; ++i) {
    angular_rows_.push_back(static_cast<int>((i + 0.5) * static_cast<int>(tokens) / count));
  }
}

Probe::Slot Probe::measure(const Tensor& x) {
  for (const MeasuredSignal& m : recent_) {
    if (m.signal.same_as(x)) return m.slot;
  }
  const StatisticsRequest request{.moments = true,
                                  .squares = true,
                                  .cosine_of_sequences = sequences_.empty() ? context_.sequences : 0,
                                  .top_magnitudes = top_count};
  MeasuredSignal& m = recent_[oldest_];
  oldest_ = (oldest_ + 1) % recent_.size();
  m = {x, record_.measure(x, request)};
  for (const auto& rows : sequences_) record_.measure(context_.ops.gather(x, rows), {.cosine_of_sequences = 1});
  return m.slot;
}

double Probe::token_cosine(Slot slot) const {
  if (sequences_.empty()) return record_[slot].token_cosine;
  double sum = 0.0;
  for (std::size_t i = 1; i <= sequences_.size(); ++i) sum += record_[slot + i].token_cosine;
  return sum / static_cast<double>(sequences_.size());
}

void Probe::fill(const Place& place) {
  const SignalStatistics& s = record_[place.slot];
  // In a stream of several parts, statistics are averaged over the parts; `maximum` is the largest over the parts.
  const int parts = place.signal == Signal::x_out ? parts_ : 1;
  const auto set = [&](Statistic statistic, double value) {
    double& all = entry(statistic, place.signal, place.index);
    if (statistic == Statistic::maximum) {
      all = place.part == 0 ? value : larger(all, value);
    } else {
      all = (place.part == 0 ? 0.0 : all) + value / parts;
    }
  };
  const double second_moment = mean_of(s.rows[Statistic::second_moment]);
  const bool finite = std::isfinite(second_moment);
  for (const Statistic statistic : row_statistics) {
    const std::vector<double>& of_tokens = s.rows[statistic];
    const bool largest = statistic == Statistic::maximum;  // max_element ignores NaN
    set(statistic, !largest ? mean_of(of_tokens) : finite ? *std::ranges::max_element(of_tokens) : second_moment);
  }
  set(Statistic::token_cosine, token_cosine(place.slot));
  if (place.signal == Signal::x_out && !finite && reading_.diverged_at < 0) {
    reading_.diverged_at = std::max(place.index - 1, 0);
  }
  if (place.sublayer < 0) return;
  auto& top = reading_.top[place.signal];
  top.resize(static_cast<std::size_t>(context_.model.sublayers()));
  std::vector<double>& largest = top[static_cast<std::size_t>(place.sublayer)];
  std::vector<double> merged;
  std::ranges::merge(largest, s.top_magnitudes, std::back_inserter(merged), std::greater());
  merged.resize(s.top_magnitudes.size());
  largest = std::move(merged);
}

void Probe::fill(const Branch& b) {
  const double scale = context_.model.branch_scale_at(b.sublayer);
  const std::vector<double>& bb = record_[b.branch].squares;
  const std::vector<double>& xx = record_[b.stream].squares;
  const std::vector<double>& bx = record_[b.product].dots;
  double ratio = 0.0;
  double cosine = 0.0;
  for (std::size_t t = 0; t < bb.size(); ++t) {
    ratio += scale * std::sqrt(bb[t] / xx[t]);
    cosine += bx[t] / std::sqrt(bb[t] * xx[t]);
  }
  entry(Statistic::branch_ratio, Signal::B_out, b.sublayer) = ratio / static_cast<double>(bb.size());
  entry(Statistic::branch_cosine, Signal::B_out, b.sublayer) = cosine / static_cast<double>(bb.size());
}

void Probe::fill(const Sum& s) {
  double& maximum = entry(Statistic::maximum, Signal::sum, s.step + 1);
  const double largest = record_[s.slot].top_magnitudes.front();
  maximum = std::isnan(maximum) ? largest : std::max(maximum, largest);
}

void Probe::store_for_angles(const Tensor& x) {
  if (stored_.size() <= angular_depths) stored_.push_back(context_.ops.gather(x, angular_rows_));
}

void Probe::fill_angles() {
  if (stored_.size() > angular_depths) return;
  const std::size_t depths = stored_.size();
  std::vector<double>& distance = reading_.profile.angular_distance;
  distance.assign(depths * depths, 0.0);
  StatisticsRecord record(context_.ops);
  for (const Tensor& x : stored_) record.measure(x, {.squares = true});
  record.fetch();
  for (std::size_t i = 0; i < depths; ++i) {
    const std::vector<double>& squares = record[i].squares;
    distance[i * depths + i] = std::isfinite(mean_of(squares)) ? 0.0 : nan;
    StatisticsRecord products(context_.ops);  // dot products of the stream at depth i and at later depths
    for (std::size_t j = i + 1; j < depths; ++j) products.measure(stored_[i], {.dots_with = stored_[j]});
    products.fetch();
    for (std::size_t j = i + 1; j < depths; ++j) {
      const std::vector<double>& dots = products[j - i - 1].dots;
      double sum = 0.0;
      for (std::size_t t = 0; t < dots.size(); ++t) {
        sum += std::acos(std::clamp(dots[t] / std::sqrt(squares[t] * record[j].squares[t]), -1.0, 1.0));
      }
      distance[i * depths + j] = sum / (std::numbers::pi * static_cast<double>(dots.size()));
      distance[j * depths + i] = distance[i * depths + j];
    }
  }
}

Reading Probe::take() {
  record_.fetch();
  for (const Place& place : places_) fill(place);
  for (const Branch& branch : branches_) fill(branch);
  for (const Sum& sum : sums_) fill(sum);
  fill_angles();
  stored_.clear();
  return std::move(reading_);
}

Growth Probe::growth(const Branch& b) const {
  const SublayerRule rule = context_.model.rule(b.sublayer);
  const std::vector<double>& xx = record_[b.stream].squares;
  const std::vector<double>& bb = record_[b.branch].squares;
  const std::vector<double>& xb = record_[b.product].dots;
  const std::vector<double>& ss = record_[*b.sum].squares;
  const auto entries = static_cast<double>(context_.model.width) * static_cast<double>(ss.size());
  const double rounding = growth_rounding(format_of(stream_.signal.dtype()).unit_roundoff(), context_.model.width);
  Growth g{};
  for (std::size_t t = 0; t < ss.size(); ++t) {
    const double stream = rule.alpha * rule.alpha * xx[t];
    const double branch = rule.beta * rule.beta * bb[t];
    const double cross = 2.0 * rule.alpha * rule.beta * xb[t];
    g.stream += stream / entries;
    g.branch += branch / entries;
    g.cross += cross / entries;
    g.sum += ss[t] / entries;
    const double reach = std::sqrt(stream) + std::sqrt(branch);
    const double off = std::abs(ss[t] - (stream + branch + cross));
    const double units = off == 0.0 ? 0.0 : off / (rounding * reach * reach);
    if (std::isnan(units) || units > g.residual) g.residual = units;
    if (std::isnan(g.residual)) break;
  }
  if (!std::isfinite(g.sum)) g.residual = nan;
  return g;
}

std::vector<Growth> Probe::growth() const {
  const Growth unknown{.stream = nan, .branch = nan, .cross = nan, .sum = nan, .residual = nan};
  std::vector<Growth> all(static_cast<std::size_t>(context_.model.sublayers()), unknown);
  for (const Branch& b : branches_) {
    if (b.sum) all[static_cast<std::size_t>(b.sublayer)] = growth(b);
  }
  return all;
}

}  // namespace periscope
