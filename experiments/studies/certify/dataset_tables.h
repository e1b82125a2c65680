#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/result/table.h"
#include "experiments/studies/certify/certify.h"

/// The parts of the result's columns.
namespace periscope::certify {

/// A certificate, and what is said beside it.
struct Certified {
  const theory::Certificate& certificate;
  const ModelSpec& model;
  const SignalMaxima* measured;              ///< held against it; null if nothing was
  const std::vector<NumberFormat>& formats;  ///< that are judged

  [[nodiscard]] std::size_t places() const { return static_cast<std::size_t>(model.sublayers()) + 2; }
};

/// A result, and its certificates.
struct Judged {
  const CertifyResult& result;
  const std::vector<NumberFormat>& formats;
  Certified exact;
  std::vector<std::pair<std::size_t, Certified>> runs = {};  ///< by the position of the format
  std::optional<Certified> own = {};
  std::vector<std::pair<std::size_t, Certified>> scaled_runs = {};
};

/// The position on the dimension format.
std::size_t position_of(const NumberFormat& format);

/// The arithmetic of a certificate; `of` says in words which. Names begin with `prefix`, `on` are the dimensions.
dataset::Table<theory::Certificate> arithmetic_table(const std::string& prefix, const std::string& on,
                                                     const std::string& of);

/// Every bound of a certificate on (signal, place). `in` says in words of which arithmetic.
dataset::Table<Certified> bounds_table(const std::string& prefix, const std::string& leading, const std::string& in);
/// The table of bounds with the measured maxima beside them.
dataset::Table<Certified> measured_bounds_table(const std::string& prefix, const std::string& in);

/// The verdicts of a run's own arithmetic, on (format, class).
dataset::Table<Certified> verdicts_table(const std::string& prefix);

/// The largest bound, and the largest measured number, of every class by place.
dataset::Table<Certified> exact_places_table();
dataset::Table<Certified> run_places_table();

/// The factors that bring the stream into a format, and the stack that was scaled and run.
dataset::Table<Judged> headroom_table();

}  // namespace periscope::certify
