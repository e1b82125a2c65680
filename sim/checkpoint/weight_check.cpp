#include "sim/checkpoint/weight_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope {
namespace {

constexpr double entry_limit = 1000.0;    ///< largest |w| over the median rms of rows, or over the median |gain|
constexpr double slice_limit = 100.0;     ///< rms of a row or column over the median
constexpr std::int64_t least_slice = 16;  ///< shortest row or column that is compared with others
constexpr double mean_limit = 1e-3;       ///< distance of a row from the table's mean row over the median distance
constexpr double eps_limit = 0.125;       ///< eps over the median E[x²] of the stack's input

/// Returns the median of the positive values; 0 if there are none.
double positive_median(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !(x > 0.0); });
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<double> roots_of(std::vector<double> squares, std::int64_t length) {
  for (double& x : squares) x = std::sqrt(x / static_cast<double>(length));
  return squares;
}

/// Entries, rows or columns that share a property.
struct Places {
  std::int64_t count = 0, first = 0;
  double value = 0.0;  ///< of the first
};

/// Sums over rows and columns as they are stored; non-finite entries count as 0. A vector has columns of length 1.
struct Scan {
  std::vector<double> row_squares, row_largest, column_squares, column_sums;
  std::vector<std::uint64_t> row_hashes;  ///< only of tables
};

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const std::function<void(std::uint64_t)>& after_row)
      : checkpoint_(checkpoint), model_(checkpoint.model()), after_row_(after_row) {}

  std::vector<Finding> findings() {
    for (const auto& [tensor, uses] : checkpoint_.uses()) {
      tensor_ = tensor;
      const std::vector<std::int64_t>& shape = checkpoint_.files().find(tensor).shape;
      is_vector_ = shape.size() < 2;
      rows_ = shape.front();
      columns_ = is_vector_ ? 1 : shape.back();
      const ParameterMap::Use& use = uses.front();
      const bool is_gain =
          use.parameter.part == ParameterId::Part::gain && use.parameter.weight != Weight::branch_scale;
      plus_ = use.part.plus;
      if (!is_vector_) {
        check_matrix(uses);
      } else if (const Scan sums = scan(false); is_gain) {
        check_entries(sums);
        add_gains(sums);
      }
    }
    check_gains();
    check_layer_scales();
    check_eps();
    check_copies();
    return std::move(findings_);
  }

 private:
  void add(Fault fault, std::string found, std::string expected) {
    findings_.push_back({fault, tensor_, std::move(found), std::move(expected)});
  }

  /// Adds a finding such as "2 of 64 rows are zero, the first is 5", unless there are no places.
  void add(Fault fault, const Places& places, std::int64_t total, std::string_view property, const std::string& first,
           std::string expected) {
    if (places.count == 0) return;
    add(fault, fmt::format("{} of {} {}, the first is {}", places.count, total, property, first), std::move(expected));
  }

  [[nodiscard]] std::string text_of(std::int64_t entry, double value) const {
    const std::string at =
        is_vector_ ? fmt::to_string(entry) : fmt::format("{}, {}", entry / columns_, entry % columns_);
    return fmt::format("[{}] = {:.4g}", at, value);
  }

  /// Returns the indices i < count for which has(i).
  template <class Has>
  static Places places_of(std::int64_t count, const Has& has) {
    Places places;
    for (std::int64_t i = 0; i < count; ++i) {
      if (has(static_cast<std::size_t>(i)) && places.count++ == 0) places.first = i;
    }
    return places;
  }

  /// Calls visit(row) for every row of `columns_` parameters. Non-finite entries become 0 and are added to `bad`.
  template <class Visit>
  void over_rows(Places& bad, const Visit& visit) {
    constexpr std::int64_t block = 1 << 18;
    std::vector<double> values;
    for (std::int64_t row = 0, count = 0; row < rows_; row += count) {
      count = std::min(std::max<std::int64_t>(block / columns_, 1), rows_ - row);
      values.resize(static_cast<std::size_t>(count * columns_));
      checkpoint_.files().read(tensor_, static_cast<std::uint64_t>(row * columns_), std::span(values));
      double zero = 0.0;  // NaN if an entry is not finite
      for (const double x : values) zero += 0.0 * x;
      for (std::size_t i = 0; i < values.size() && zero != 0.0; ++i) {
        if (std::isfinite(values[i])) continue;
        if (bad.count++ == 0) bad = {1, row * columns_ + static_cast<std::int64_t>(i), values[i]};
        values[i] = 0.0;
      }
      for (double& x : std::span(values).first(plus_ != 0.0 ? values.size() : 0)) x += plus_;
      const auto size = static_cast<std::size_t>(columns_);
      for (auto rest = std::span<const double>(values); !rest.empty(); rest = rest.subspan(size))
        visit(rest.first(size));
    }
  }

  Scan scan(bool is_table) {
    Scan all;
    Places bad;
    all.column_squares.resize(static_cast<std::size_t>(columns_));
    all.column_sums.resize(all.column_squares.size());
    over_rows(bad, [&](std::span<const double> row) {
      double squares = 0.0, largest = 0.0;
      std::uint64_t hash = 0;  // two of 10⁶ different rows have the same hash with probability 3·10⁻⁸
      for (std::size_t j = 0; j < row.size(); ++j) {
        all.column_squares[j] += row[j] * row[j];
        all.column_sums[j] += row[j];
        squares += row[j] * row[j];
        largest = std::max(largest, std::abs(row[j]));
        if (is_table) hash = std::rotl(hash ^ std::bit_cast<std::uint64_t>(row[j]), 29) * 0x9e3779b97f4a7c15U;
      }
      all.row_squares.push_back(squares);
      all.row_largest.push_back(largest);
      after_row_(row.size());
      if (is_table) all.row_hashes.push_back(hash);
    });
    add(Fault::non_finite, bad, rows_ * columns_, "entries are not finite", text_of(bad.first, bad.value),
        "finite numbers");
    return all;
  }

  void check_matrix(const std::vector<ParameterMap::Use>& uses) {
    const auto is = [&](Weight weight) {
      return std::ranges::any_of(uses, [&](const auto& use) { return use.parameter.weight == weight; });
    };
    const bool is_table = is(Weight::embedding) || is(Weight::unembedding);
    const Scan sums = scan(is_table);
    const std::int64_t unread = is(Weight::positions) ? model_.embedding.position_offset : 0;
    const std::int64_t padding = is(Weight::embedding) ? padding_token() : -1;
    const bool large_entries = check_entries(sums);  // these make their rows and columns large, too
    check_slices(
        "row", sums.row_squares, columns_, [&](std::int64_t row) { return row < unread || row == padding; },
        !large_entries);
    check_slices(
        "column", sums.column_squares, rows_, [](std::int64_t /*column*/) { return false; }, !large_entries);
    if (is_table) check_rows(sums);
    for (const Weight weight : {Weight::embedding, Weight::positions, Weight::token_types}) {
      if (!is(weight)) continue;
      const double scale = weight == Weight::embedding ? model_.embedding.scale : 1.0;
      input_ += scale * scale * positive_median(sums.row_squares) / static_cast<double>(columns_);
      if (weight == Weight::embedding) embedding_ = tensor_;
    }
  }

  /// Returns pad_token_id, whose row public implementations initialise with 0; −1 if there is none.
  [[nodiscard]] std::int64_t padding_token() const {
    const nlohmann::json& config = checkpoint_.config();
    const nlohmann::json& object = config.contains("text_config") ? config.at("text_config") : config;
    const auto id = object.find("pad_token_id");
    return id != object.end() && id->is_number_integer() ? id->get<std::int64_t>() : -1;
  }

  template <class MayBeZero>
  void check_slices(const std::string& kind, const std::vector<double>& squares, std::int64_t length,
                    const MayBeZero& may_be_zero, bool compare) {
    const std::int64_t count = std::ssize(squares);
    const Places zeros = places_of(
        count, [&](std::size_t i) { return squares[i] == 0.0 && !may_be_zero(static_cast<std::int64_t>(i)); });
    add(Fault::zeros, zeros, count, kind + "s are zero", fmt::to_string(zeros.first), "none");
    if (!compare || length < least_slice) return;
    const std::vector<double> sizes = roots_of(squares, length);
    const double median = positive_median(sizes);
    const Places large = places_of(count, [&](std::size_t i) { return sizes[i] > slice_limit * median; });
    add(Fault::outliers, large, count, kind + "s are far larger than the others", fmt::to_string(large.first),
        fmt::format("root mean square up to {:.4g}, {:g} times the median", slice_limit * median, slice_limit));
  }

  /// Returns whether there is a finding.
  bool check_entries(const Scan& sums) {
    const double limit = entry_limit * positive_median(roots_of(sums.row_squares, columns_));
    Places large = places_of(rows_, [&](std::size_t i) { return sums.row_largest[i] > limit; });
    if (large.count == 0) return false;
    std::vector<double> row(static_cast<std::size_t>(columns_));
    checkpoint_.files().read(tensor_, static_cast<std::uint64_t>(large.first * columns_), std::span(row));
    std::ranges::replace_if(
        row, [](double x) { return !std::isfinite(x); }, 0.0);
    const auto at = std::ranges::max_element(row, {}, [&](double x) { return std::abs(x + plus_); });
    add(Fault::outliers, large, rows_, is_vector_ ? "entries are far larger" : "rows have a far larger entry",
        text_of(large.first * columns_ + (at - row.begin()), *at),
        fmt::format("up to {:.4g}, {:g} times the typical size", limit, entry_limit));
    return true;
  }

  /// Finds rows of a table that equal an earlier row, or the mean row, with which programs initialise new tokens.
  void check_rows(const Scan& sums) {
    const auto is_zero = [&](std::size_t i) { return sums.row_squares[i] == 0.0; };
    std::set<std::uint64_t> seen;
    const Places repeated =
        places_of(rows_, [&](std::size_t i) { return !is_zero(i) && !seen.insert(sums.row_hashes[i]).second; });
    add(Fault::repeated_rows, repeated, rows_, "rows equal an earlier row", fmt::to_string(repeated.first), "none");
    const auto count = static_cast<double>(std::ranges::count_if(sums.row_squares, [](double x) { return x > 0.0; }));
    std::vector<double> distances;
    Places bad;
    over_rows(bad, [&](std::span<const double> row) {
      double squares = 0.0;
      for (std::size_t j = 0; j < row.size(); ++j) squares += std::pow(row[j] - sums.column_sums[j] / count, 2);
      distances.push_back(std::sqrt(squares));
    });
    const double limit = mean_limit * positive_median(distances);
    const Places near = places_of(rows_, [&](std::size_t i) { return distances[i] < limit && !is_zero(i); });
    add(Fault::mean_rows, near, rows_, "rows are near the mean row", fmt::to_string(near.first),
        fmt::format("distances of at least {:g} times the median", mean_limit));
  }

  void add_gains(const Scan& sums) {
    if (first_gain_.empty()) first_gain_ = tensor_;
    if (sums.column_squares.front() == 0.0) add(Fault::zeros, "all gains of a norm are zero", "gains other than 0");
    means_.push_back(sums.column_sums.front() / static_cast<double>(rows_));
    Places bad;
    over_rows(bad, [&](std::span<const double> row) { gains_.push_back(row.front()); });
  }

  void check_layer_scales() {
    for (const std::string& tensor : checkpoint_.layer_scales()) {
      tensor_ = tensor;
      const double scale = checkpoint_.files().values(tensor).front();
      if (!std::isfinite(scale)) add(Fault::non_finite, fmt::format("{}", scale), "a finite number");
      if (scale == 0.0) add(Fault::zeros, "0", "a number other than 0");
    }
  }

  /// Looks for the two mistakes of converters in the gains of all norms: 1 added once too often, and 1 subtracted.
  void check_gains() {
    if (gains_.empty()) return;
    std::ranges::sort(means_);
    const double mean = means_[means_.size() / 2];
    const auto share = [&](const auto& has) {
      return static_cast<double>(std::ranges::count_if(gains_, has)) / static_cast<double>(gains_.size());
    };
    const double below_one = share([](double g) { return g < 0.95; });
    const double negative = share([](double g) { return g < -0.1; });
    const bool added = mean >= 1.5 && below_one <= 0.001;
    if (!added && negative < 0.25 && share([](double g) { return std::abs(g) < 0.1; }) < 1.0) return;
    tensor_ = first_gain_;
    add(Fault::gains,
        fmt::format("mean gain {:.3g} in the median of {} norms, {:.3g} % of gains below {}", mean, means_.size(),
                    100.0 * (added ? below_one : negative), added ? "0.95" : "-0.1"),
        added ? "gains around 1; was 1 added twice?" : "gains around 1; was 1 subtracted?");
  }

  /// Compares ε with the mean square at the first norm, if that norm reads embeddings.
  void check_eps() {
    const SublayerRule rule = model_.rule(0);
    const bool reads_input = model_.embedding_norm || rule.norm_a || rule.norm_c;
    const bool divides_by_rms = formula_of(model_.norm).divisor == NormFormula::Divisor::root_mean_square;
    if (!reads_input || !divides_by_rms || model_.projects_embedding() || input_ == 0.0) return;
    if (model_.norm_eps <= eps_limit * input_) return;
    tensor_ = embedding_;
    add(Fault::eps,
        fmt::format("median mean square {:.3g} of the stack's input for norm eps {:g}", input_, model_.norm_eps),
        fmt::format("at least {:g} eps", 1.0 / eps_limit));
  }

  void check_copies() {
    for (const auto& [copy, original] : checkpoint_.copies()) {
      const std::string property = checkpoint_.difference(copy, original);
      if (property.empty()) continue;
      tensor_ = copy;
      add(Fault::tied_copies, fmt::format("a different {} than {}", property, original), "equal tensors (tied)");
    }
  }

  const Checkpoint& checkpoint_;
  const ModelSpec& model_;
  const std::function<void(std::uint64_t)>& after_row_;
  std::vector<Finding> findings_;
  std::string tensor_;  ///< subject of the next finding
  bool is_vector_ = false;
  std::int64_t rows_ = 0, columns_ = 0;
  double plus_ = 0.0;   ///< added to stored values of tensor_
  double input_ = 0.0;  ///< E[x²] of the stack's input: the sum over tables of their median row
  std::string embedding_, first_gain_;
  std::vector<double> means_, gains_;  ///< mean of every norm's gains; all gains
};

}  // namespace

std::vector<Finding> check_weights(const Checkpoint& checkpoint, const std::vector<std::string>& ignored,
                                   const std::function<void(std::uint64_t)>& after_row) {
  for (const std::string& name : ignored) {
    if (std::ranges::count(fault_names, name) > 0) continue;
    throw ConfigError(fmt::format("--ignore {}: expected one of {}", shortened(name), fmt::join(fault_names, ", ")));
  }
  std::vector<Finding> findings = Checker(checkpoint, after_row).findings();
  std::erase_if(findings, [&](const Finding& one) { return std::ranges::count(ignored, name_of(one.fault)) > 0; });
  return findings;
}

nlohmann::ordered_json json_of(const Finding& finding) {
  return {{"kind", name_of(finding.fault)},
          {"tensor", finding.tensor},
          {"found", finding.found},
          {"expected", finding.expected}};
}

}  // namespace periscope
