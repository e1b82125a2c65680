#include <cmath>
#include <optional>

#include "experiments/studies/probe/dataset_tables.h"
#include "sim/numerics/number_format.h"

namespace periscope::probe {
namespace {

using dataset::Table;

/// The stream at one depth.
struct AtDepth {
  const StreamExtremes& extremes;
  const stacks::TokenInput& input;
};

/// One of its largest entries.
struct Extreme {
  const Entry& entry;
  double median;
  const stacks::TokenInput& input;

  [[nodiscard]] int id() const { return input.ids[static_cast<std::size_t>(entry.row)]; }
};

std::vector<AtDepth> depths_of(const ProbeResult& r) {
  std::vector<AtDepth> all;
  for (const StreamExtremes& extremes : r.measured.extremes) all.push_back({extremes, r.input});
  return all;
}

std::vector<Extreme> largest_at(const AtDepth& depth) {
  std::vector<Extreme> all;
  for (const Entry& entry : depth.extremes.top) all.push_back({entry, depth.extremes.median, depth.input});
  return all;
}

Table<Extreme> extreme_table() {
  using E = Extreme;
  const std::string on = "depth rank";
  Table<E> table;
  table
      .column({"extreme_token", on, "1", "tokens of the largest |x| of the stream"},
              [](const E& e) { return e.entry.row; })
      .column({"extreme_id", on, "1", "their ids"}, &E::id)
      .column_if_any({"extreme_text", on, "", "what these stand for"},
                     [](const E& e) {
                       return e.input.tokenizer != nullptr ? std::optional(token_text(e.input, e.id())) : std::nullopt;
                     })
      .column({"extreme_feature", on, "1", "their features"}, [](const E& e) { return e.entry.col; })
      .column({"extreme_value", on, "1", "largest |x| of the stream, with their signs"},
              [](const E& e) { return e.entry.value; })
      .column({"extreme_over_median", on, "1", "their |x| over median_magnitude"},
              [](const E& e) { return std::abs(e.entry.value) / e.median; })
      .column({"extreme_is_massive", on, "1", "1: massive (Sun et al. 2024)"},
              [](const E& e) { return is_massive(e.entry, e.median); });
  return table;
}

Table<AtDepth> depth_table() {
  Table<AtDepth> table;
  table
      .column({"median_magnitude", "depth", "1", "median of |x| of the stream over all tokens and features"},
              [](const AtDepth& d) { return d.extremes.median; })
      .rows("rank", extreme_table(), largest_at);
  return table;
}

/// The largest |x| of every signal, and a format.
struct InFormat {
  const NumberFormat& format;
  std::vector<SignalPeaks> peaks;
  Margin smallest;
};

std::vector<InFormat> formats_of(const ProbeResult& r) {
  const std::vector<SignalPeaks> peaks = signal_peaks(r.measured);
  std::vector<InFormat> all;
  for (const NumberFormat& format : number_formats) {
    all.push_back({format, peaks, smallest_margin(peaks, format.largest)});
  }
  return all;
}

/// By signal and sublayer: those by depth from the first sublayer on.
std::vector<double> by_sublayer(const std::vector<SignalPeaks>& peaks) {
  std::vector<double> all;
  for (const SignalPeaks& signal : peaks) {
    all.insert(all.end(), signal.values.begin() + (signal.is_by_depth() ? 1 : 0), signal.values.end());
  }
  return all;
}

std::vector<double> margins_in(const InFormat& f) {
  std::vector<double> all;
  for (const double largest : by_sublayer(f.peaks)) all.push_back(f.format.largest / largest);
  return all;
}

Table<InFormat> margin_table() {
  using F = InFormat;
  Table<F> table;
  table
      .column({"format_largest", "format", "1", "largest finite number of the format"},
              [](const F& f) { return f.format.largest; })
      .column({"smallest_margin", "format", "1", "the smallest margin of all signals"},
              [](const F& f) { return f.smallest.value; })
      .column({"smallest_margin_signal", "format", "", "its signal"}, [](const F& f) { return f.smallest.signal; })
      .column({"smallest_margin_index", "format", "1", "its sublayer; of x_out and r_out its depth"},
              [](const F& f) { return f.smallest.index; })
      .column({"margin", "format signal sublayer", "1", "a format's largest number over max |x|"}, margins_in);
  return table;
}

}  // namespace

Table<ProbeResult> extremes_table() {
  using R = ProbeResult;
  Table<R> table;
  table.rows("depth", depth_table(), depths_of)
      .column({"signal_maximum", "signal sublayer", "1", "max |x| over all tokens and features"},
              [](const R& r) { return by_sublayer(signal_peaks(r.measured)); })
      .rows("format", margin_table(), formats_of);
  return table;
}

}  // namespace periscope::probe
