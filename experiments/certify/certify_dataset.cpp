#include <algorithm>
#include <cmath>

#include "experiments/certify/certify.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;
using Words = std::vector<std::string>;

template <class Names>
Words words(const Names& names) {
  return Words(names.begin(), names.end());
}

class Builder {
 public:
  explicit Builder(const CertifyResult& result)
      : r_(result), places_(static_cast<std::size_t>(result.spec.model.sublayers()) + 2) {}

  NetcdfDataset take(const nlohmann::ordered_json& provenance) {
    const auto width = static_cast<std::size_t>(r_.spec.model.width);
    data_.dimensions = {{"signal", theory::certified_signals.size()},
                        {"class", theory::signal_class_names.size()},
                        {"place", places_},
                        {"depth", places_ - 1},
                        {"feature", width},
                        {"format", number_formats.size()}};
    data_.attributes = provenance;
    data_.attributes["model"] = r_.model;
    data_.attributes["seconds"] = r_.seconds;
    data_.attributes["arithmetic"] = arithmetic_names[static_cast<std::size_t>(r_.arithmetic)];
    data_.attributes["length"] = r_.runs.empty() ? 0 : r_.runs.front().longest;
    for (const auto& [name, hash] : r_.weights) data_.attributes["sha256 of " + name] = hash;
    coordinates();
    by_signal();
    by_class();
    by_run();
    stream();
    return std::move(data_);
  }

 private:
  void add(std::string name, Words dimensions, std::variant<Values, Words> values, std::string long_name) {
    const bool text = std::holds_alternative<Words>(values);
    data_.variables.push_back(
        {std::move(name), std::move(dimensions), std::move(values), text ? "" : "1", std::move(long_name)});
  }

  void coordinates() {
    Values place;
    for (std::size_t i = 0; i < places_; ++i) place.push_back(static_cast<double>(i) - 1.0);
    Values depth;
    for (std::size_t i = 0; i + 1 < places_; ++i) depth.push_back(static_cast<double>(i));
    Words formats;
    Values largest;
    for (const NumberFormat& f : number_formats) {
      formats.emplace_back(f.name);
      largest.push_back(f.largest);
    }
    Words signals;
    for (const Signal signal : theory::certified_signals) signals.emplace_back(name_of(signal));
    add("signal", {"signal"}, signals, "signal");
    add("class", {"class"}, words(theory::signal_class_names), "class of signals");
    add("place", {"place"}, place, "sublayer; -1: before the first, 2L: after the last");
    add("depth", {"depth"}, depth, "sublayers passed; 0 is the stack's input");
    add("format", {"format"}, formats, "number format");
    add("format_largest", {"format"}, largest, "largest finite number of the format");
  }

  [[nodiscard]] std::size_t column(const theory::SignalBound& b) const {
    return static_cast<std::size_t>(b.sublayer + 1);
  }

  void by_signal() {
    Values bound(theory::certified_signals.size() * places_, nan);
    Values channel = bound;
    Values measured = bound;
    for (const theory::SignalBound& b : r_.certificate.bounds) {
      const auto row = std::ranges::find(theory::certified_signals, b.signal) - theory::certified_signals.begin();
      const std::size_t at = static_cast<std::size_t>(row) * places_ + column(b);
      bound[at] = b.largest;
      channel[at] = static_cast<double>(b.channel);
      if (r_.measured) measured[at] = r_.measured->largest(b.signal, b.sublayer);
    }
    add("bound", {"signal", "place"}, bound, "largest magnitude that any input can cause in exact arithmetic (T17)");
    add("bound_feature", {"signal", "place"}, channel, "feature of that bound");
    if (r_.measured) add("measured", {"signal", "place"}, measured, "largest magnitude measured");
  }

  void by_class() {
    Values bound(theory::signal_class_names.size() * places_, nan);
    Values measured = bound;
    for (const theory::SignalBound& b : r_.certificate.bounds) {
      const std::size_t at = static_cast<std::size_t>(theory::class_of(b.signal)) * places_ + column(b);
      bound[at] = std::isnan(bound[at]) ? b.largest : std::max(bound[at], b.largest);
      if (!r_.measured) continue;
      const double seen = r_.measured->largest(b.signal, b.sublayer);
      measured[at] = std::isnan(measured[at]) ? seen : std::max(measured[at], seen);
    }
    add("class_bound", {"class", "place"}, bound, "largest bound of a class of signals in exact arithmetic");
    if (r_.measured) add("class_measured", {"class", "place"}, measured, "largest magnitude measured in a class");
  }

  /// In the arithmetic of the verdicts (T24); NaN for formats that were not judged.
  void by_run() {
    const std::size_t classes = theory::signal_class_names.size();
    Values bound(number_formats.size() * classes * places_, nan);
    Values certified(number_formats.size() * classes, nan);
    for (const theory::Certificate& c : r_.runs) {
      const auto* at = std::ranges::find(number_formats, c.arithmetic.stored.name, &NumberFormat::name);
      const auto format = static_cast<std::size_t>(at - number_formats.begin());
      for (const theory::SignalBound& b : c.bounds) {
        const auto kind = static_cast<std::size_t>(theory::class_of(b.signal));
        double& largest = bound[(format * classes + kind) * places_ + column(b)];
        largest = std::isnan(largest) ? b.largest : std::max(largest, b.largest);
      }
      for (std::size_t k = 0; k < classes; ++k) {
        const bool holds = theory::verdict(c, static_cast<theory::SignalClass>(k)).certified;
        certified[format * classes + k] = holds ? 1.0 : 0.0;
      }
    }
    add("run_bound", {"format", "class", "place"}, bound, "largest bound of a class in the arithmetic of a run (T24)");
    add("certified", {"format", "class"}, certified, "1: no input can overflow the format there; 0: not certified");
  }

  void stream() {
    Values all;
    for (int l = -1; l < r_.spec.model.sublayers(); ++l) {
      const theory::Vector& m = r_.certificate.find(Signal::x_out, l)->magnitude;
      all.insert(all.end(), m.begin(), m.end());
    }
    add("stream_bound", {"depth", "feature"}, all, "bound on every feature of the stream x_out");
  }

  const CertifyResult& r_;
  std::size_t places_;
  NetcdfDataset data_;
};

}  // namespace

NetcdfDataset certify_dataset(const CertifyResult& result, const nlohmann::ordered_json& provenance) {
  return Builder(result).take(provenance);
}

}  // namespace periscope
