#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/studies/certify/dataset_tables.h"

namespace periscope::certify {
namespace {

using dataset::Table;
using theory::SignalBound;
using theory::SignalClass;

/// A value of every bound on (signal, place), row-major.
template <class F>
auto on_places(const Certified& c, F value) {
  std::vector<std::optional<std::decay_t<std::invoke_result_t<F, const SignalBound&>>>> all(
      theory::certified_signals.size() * c.places());
  for (const SignalBound& b : c.certificate.bounds) {
    const auto signal = std::ranges::find(theory::certified_signals, b.signal) - theory::certified_signals.begin();
    all[static_cast<std::size_t>(signal) * c.places() + static_cast<std::size_t>(b.sublayer + 1)] =
        std::invoke(value, b);
  }
  return all;
}

/// The values of a bound and of what was measured there, NaN where nothing was; nothing at all without a measurement.
template <class F>
std::optional<std::vector<std::optional<double>>> on_measured_places(const Certified& c, F value) {
  if (c.measured == nullptr) return std::nullopt;
  return on_places(c, [&](const SignalBound& b) {
    if (c.measured->find(b.signal, b.sublayer) == nullptr) return std::numeric_limits<double>::quiet_NaN();
    return value(b.largest, c.measured->largest(b.signal, b.sublayer));
  });
}

/// The largest value of every class on (class, place), row-major.
template <class F>
std::vector<double> on_class_places(const Certified& c, F value) {
  std::vector<double> all(theory::signal_class_names.size() * c.places(), std::nan(""));
  for (const SignalBound& b : c.certificate.bounds) {
    double& at = all[static_cast<std::size_t>(theory::class_of(b.signal)) * c.places() +
                     static_cast<std::size_t>(b.sublayer + 1)];
    at = std::isnan(at) ? value(b) : std::max(at, value(b));
  }
  return all;
}

double largest_of(const SignalBound& b) { return b.largest; }

theory::Verdict verdict_of_class(const Certified& c, std::size_t kind) {
  return theory::verdict(c.certificate, static_cast<SignalClass>(kind));
}

/// A value of every class's verdict.
template <class F>
auto on_classes(F value) {
  return [value](const Certified& c) {
    std::vector<decltype(value(theory::Verdict{}, c.model))> all;
    for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
      all.push_back(value(verdict_of_class(c, k), c.model));
    }
    return all;
  };
}

}  // namespace

std::size_t position_of(const NumberFormat& format) {
  const auto* at = std::ranges::find(number_formats, format.name, &NumberFormat::name);
  return static_cast<std::size_t>(at - number_formats.begin());
}

Table<theory::Certificate> arithmetic_table(const std::string& prefix, const std::string& on, const std::string& of) {
  using C = theory::Certificate;
  Table<C> table;
  table
      .column({prefix + "arithmetic", on, "", "arithmetic of " + of},
              [](const C& c) { return arithmetic_names[static_cast<std::size_t>(c.arithmetic.kind)]; })
      .column({prefix + "format", on, "", "stored format of " + of},
              [](const C& c) { return c.arithmetic.stored.name; })
      .column({prefix + "accumulated", on, "", "format of sums of " + of},
              [](const C& c) { return c.arithmetic.accumulated.name; })
      .column({prefix + "length", on, "1", "tokens of a sequence; 0: any number"}, &C::longest)
      .column({prefix + "weights_rounded", on, "1", "1: weights are no numbers of the format"}, &C::weights_rounded);
  return table;
}

Table<Certified> bounds_table(const std::string& prefix, const std::string& leading, const std::string& in) {
  const std::string on = leading + "signal place";
  Table<Certified> table;
  table
      .column({prefix + "bound_feature", on, "1", "feature of the bound in " + in},
              [](const Certified& c) { return on_places(c, &SignalBound::channel); })
      .column({prefix + "bound", on, "1", "largest magnitude that any input can cause in " + in},
              [](const Certified& c) { return on_places(c, largest_of); });
  return table;
}

Table<Certified> measured_bounds_table(const std::string& prefix, const std::string& in) {
  Table<Certified> table = bounds_table(prefix, "", in);
  table
      .column_if_any({prefix + "measured", "signal place", "1", "largest magnitude measured"},
                     [](const Certified& c) {
                       return on_measured_places(c, [](double /*bound*/, double largest) { return largest; });
                     })
      .column_if_any({prefix + "bound_ratio", "signal place", "1", "bound over measured"}, [](const Certified& c) {
        return on_measured_places(c, [](double bound, double largest) { return bound / largest; });
      });
  return table;
}

Table<Certified> verdicts_table(const std::string& prefix) {
  Table<Certified> table;
  table
      .column(
          {prefix + "certified", "format class", "1", "1: no input can overflow the format there; 0: not certified"},
          on_classes([](const theory::Verdict& v, const ModelSpec& /*m*/) { return v.certified; }))
      .column({prefix + "certified_reason", "format class", "", "what stands against it"}, on_classes(reason_of));
  return table;
}

Table<Certified> exact_places_table() {
  Table<Certified> table;
  table
      .column({"class_bound", "class place", "1", "largest bound of a class of signals in exact arithmetic"},
              [](const Certified& c) { return on_class_places(c, largest_of); })
      .column_if_any({"class_measured", "class place", "1", "largest magnitude measured in a class"},
                     [](const Certified& c) -> std::optional<std::vector<double>> {
                       if (c.measured == nullptr) return std::nullopt;
                       return on_class_places(
                           c, [&](const SignalBound& b) { return c.measured->largest(b.signal, b.sublayer); });
                     });
  return table;
}

Table<Certified> run_places_table() {
  Table<Certified> table;
  table.column({"run_bound", "format class place", "1", "largest bound of a class in the arithmetic of a run (T24)"},
               [](const Certified& c) { return on_class_places(c, largest_of); });
  return table;
}

}  // namespace periscope::certify
