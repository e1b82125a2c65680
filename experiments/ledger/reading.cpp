#include "experiments/ledger/reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "experiments/engine/judge/seed_rows.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/parse_integer.h"
#include "sim/base/printable.h"

namespace periscope::ledger {
namespace {

using dataset::Column;
using dataset::Dataset;

/// A column with labels: NAME[dimension=label, …].
struct Reference {
  struct Label {
    std::string text;
    bool is_range = false;
  };
  std::string column;
  std::map<std::string, Label, std::less<>> labels;
};

const Column& column_of(const Dataset& data, std::string_view name) {
  const Column* column = data.find(name);
  if (column == nullptr) throw InputError(fmt::format("the result has no column {}", name));
  return *column;
}

/// Returns the values of a column as text.
std::vector<std::string> texts_of(const Column& column) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&column.values)) return *texts;
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < dataset::size_of(column.values); ++i) {
    numbers.push_back(fmt::format("{:g}", dataset::number_at(column.values, i)));
  }
  return numbers;
}

/// Returns the position of a label along a dimension. `names` is the column of labels; null if there is none.
std::size_t position_of(const Dataset& data, const std::string& dimension, const Column* names,
                        const std::string& label) {
  const std::size_t length = data.length(dimension);
  const std::vector<std::string> known = names == nullptr ? std::vector<std::string>() : texts_of(*names);
  if (const auto found = std::ranges::find(known, label); found != known.end()) {
    return static_cast<std::size_t>(found - known.begin());
  }
  const auto index = parse_integer(label, -static_cast<std::int64_t>(length), static_cast<std::int64_t>(length) - 1);
  if (index && (known.empty() || *index < 0)) {  // counts from the end
    return static_cast<std::size_t>(*index < 0 ? *index + static_cast<std::int64_t>(length) : *index);
  }
  throw InputError(fmt::format("{} = {}: expected one of {}", dimension, shortened(label), fmt::join(known, ", ")));
}

/// Returns the first and last position of a range "first:last" along a dimension; all positions for "".
std::pair<std::size_t, std::size_t> range_of(const Dataset& data, const std::string& dimension,
                                             const std::string& range) {
  const auto length = static_cast<std::int64_t>(data.length(dimension));
  if (range.empty()) return {0, length - 1};
  const std::size_t colon = range.find(':');
  const auto position = [&](const std::string& word) {
    const auto index = parse_integer(word, -length, length - 1);
    return !index ? length : *index < 0 ? *index + length : *index;
  };
  const std::int64_t first = position(range.substr(0, colon)), last = position(range.substr(colon + 1));
  if (last >= length || first > last) {
    throw InputError(fmt::format("{} = {}: expected positions first:last up to {}", dimension, range, length - 1));
  }
  return {first, last};
}

/// The entries of a column at labels, as strides of its values.
struct Slice {
  std::size_t offset = 0;
  std::size_t seeds = 0, seed_step = 0;
  std::size_t length = 1, step = 0;
};

/// A label of a dimension, and the column of labels that it belongs to; null if there is none.
struct Label : Reference::Label {
  const Column* names = nullptr;
};

/// Returns the labels by dimension. A label may also belong to another column on one of the dimensions, such as
/// `placement` on the dimension `case`.
std::map<std::string, Label, std::less<>> labels_of(const Dataset& data, const Column& column,
                                                    const Reference& reference) {
  std::map<std::string, Label, std::less<>> found;
  const auto has = [&](const std::string& name) {
    return std::ranges::find(column.dimensions, name) != column.dimensions.end();
  };
  for (const auto& [name, label] : reference.labels) {
    const Column* names = data.find(name);
    const bool is_known = names != nullptr && names->dimensions.size() == 1 && has(names->dimensions.front());
    if (!has(name) && !is_known) {
      throw InputError(fmt::format("{}: expected one of its dimensions {}, found {}", column.name,
                                   fmt::join(column.dimensions, ", "), name));
    }
    const std::string& dimension = has(name) ? name : names->dimensions.front();
    if (!found.emplace(dimension, Label{label, is_known ? names : nullptr}).second) {
      throw InputError(fmt::format("{}: expected one label of {}", column.name, dimension));
    }
  }
  return found;
}

Slice select(const Dataset& data, const Column& column, const Reference& reference) {
  Slice s;
  const auto labels = labels_of(data, column, reference);
  std::size_t step = 1;
  std::string entries;  // the dimension that remains
  for (auto it = column.dimensions.rbegin(); it != column.dimensions.rend(); ++it) {
    const std::size_t length = data.length(*it);
    if (length == 0) throw InputError(fmt::format("{}: {} has no entries", column.name, *it));
    const auto label = labels.find(*it);
    const std::string text = label == labels.end() ? "" : label->second.text;
    const bool is_range = label != labels.end() && label->second.is_range;
    if (!text.empty() && !is_range) {
      s.offset += step * position_of(data, *it, label->second.names, text);
    } else if (*it == "seed") {
      if (is_range) throw InputError(fmt::format("seed = {}: expected one seed, or all without a label", text));
      s.seeds = length;
      s.seed_step = step;
    } else if (length > 1 || is_range) {
      if (!entries.empty()) {
        throw InputError(fmt::format("{}: expected a label of {} or {}", column.name, *it, entries));
      }
      entries = *it;
      const auto [first, last] = range_of(data, *it, text);
      s.offset += step * first;
      s.length = last - first + 1;
      s.step = step;
    }
    step *= length;
  }
  return s;
}

Numbers numbers_of(const Dataset& data, const Reference& reference) {
  const Column& column = column_of(data, reference.column);
  if (column.type() == dataset::Type::text) {
    throw InputError(fmt::format("{}: expected numbers, found text", column.name));
  }
  const Slice s = select(data, column, reference);
  Numbers numbers{.values = {}, .seeds = s.seeds, .length = s.length};
  for (std::size_t seed = 0; seed < numbers.rows(); ++seed) {
    for (std::size_t i = 0; i < s.length; ++i) {
      numbers.values.push_back(dataset::number_at(column.values, s.offset + seed * s.seed_step + i * s.step));
    }
  }
  return numbers;
}

using Entries = std::vector<double>;

double reduced(std::string_view name, const Entries& entries) {
  Entries indices, values;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::isnan(entries[i])) continue;
    indices.push_back(static_cast<double>(i));
    values.push_back(entries[i]);
  }
  if (values.empty()) return dataset::missing<double>();
  if (name == "first") return values.front();
  if (name == "last") return values.back();
  if (name == "max") return std::ranges::max(values);
  if (name == "min") return std::ranges::min(values);
  if (name == "slope") return judge::slope_of(indices, values);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

constexpr std::pair<std::string_view, double (*)(double)> functions[] = {
    {"log", [](double x) { return std::log(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"abs", [](double x) { return std::abs(x); }}};
constexpr int most_levels = 100;
constexpr std::string_view reductions[] = {"max", "min", "mean", "first", "last", "slope"};

/// Parses and evaluates an expression by recursive descent.
class Evaluator {
 public:
  Evaluator(const std::string& text, const Dataset& data) : text_(text), data_(data) {}

  Numbers run() {
    Numbers result = sum();
    if (!rest().empty()) fail("an operator or the end");
    return result;
  }
  Reference reference() {
    const std::string name = word();
    if (name.empty()) fail("a column");
    Reference found = reference_to(name);
    if (!rest().empty()) fail("the end");
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw ConfigError(fmt::format("{}: expected {} at character {}", shortened(text_), expected, at_ + 1));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::string_view rest() {
    skip_spaces();
    return std::string_view(text_).substr(at_);
  }
  bool accept(char symbol) {
    if (!rest().starts_with(symbol)) return false;
    ++at_;
    return true;
  }
  void require(char symbol) {
    if (!accept(symbol)) fail(fmt::format("'{}'", symbol));
  }
  /// Returns the identifier at the current position, or "".
  std::string word() {
    const std::string_view text = rest();
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) return {};
    const auto end = std::ranges::find_if_not(text, is_letter);
    const std::string found(text.begin(), end);
    at_ += found.size();
    return found;
  }
  using Operation = double (*)(double, double);
  /// Evaluates operands that are joined by operators of one precedence, from left to right.
  Numbers chain(Numbers (Evaluator::*operand)(), const std::array<std::pair<char, Operation>, 2>& operations) {
    Numbers left = (this->*operand)();
    for (;;) {
      const auto* const found = std::ranges::find_if(operations, [&](const auto& one) { return accept(one.first); });
      if (found == operations.end()) return left;
      left = combined(left, (this->*operand)(), found->second);
    }
  }
  Numbers sum() {
    return chain(&Evaluator::product,
                 {{{'+', [](double a, double b) { return a + b; }}, {'-', [](double a, double b) { return a - b; }}}});
  }
  Numbers product() {
    return chain(&Evaluator::factor,
                 {{{'*', [](double a, double b) { return a * b; }}, {'/', [](double a, double b) { return a / b; }}}});
  }
  Numbers factor() {
    const Level level(*this);
    if (accept('-')) return combined({.values = {0.0}}, factor(), std::minus<>());
    if (accept('(')) {
      Numbers inner = sum();
      require(')');
      return inner;
    }
    const std::string name = word();
    if (name.empty()) return constant();
    if (!accept('(')) return numbers_of(data_, reference_to(name));
    Numbers argument = sum();
    require(')');
    return applied(name, argument);
  }
  /// Counts nested operands, each of which needs the stack of a recursion.
  struct Level {
    explicit Level(Evaluator& owner) : evaluator(owner) {
      if (++evaluator.levels_ > most_levels) evaluator.fail(fmt::format("at most {} nested operands", most_levels));
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --evaluator.levels_; }
    Evaluator& evaluator;
  };
  Numbers constant() {
    const std::string_view text = rest();
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) fail("a number, a column or a function");
    at_ += static_cast<std::size_t>(end - text.data());
    return {.values = {value}};
  }
  /// Reads the labels of a column, "[dimension=label, …]", if there are any.
  Reference reference_to(const std::string& name) {
    Reference found{.column = name, .labels = {}};
    if (!accept('[')) return found;
    do {
      const std::string dimension = word();
      require('=');
      const bool quoted = accept('"');
      const std::string_view text = std::string_view(text_).substr(at_);
      const std::size_t end = text.find_first_of(quoted ? "\"" : ",]");
      if (dimension.empty() || end == std::string_view::npos || end == 0) fail("dimension=label");
      const std::string label(text.substr(0, end));
      const bool is_range = !quoted && label.find(':') != std::string::npos;
      if (!found.labels.emplace(dimension, Reference::Label{label, is_range}).second) {
        fail(fmt::format("one label of {}", dimension));
      }
      at_ += end + (quoted ? 1 : 0);
    } while (accept(','));
    require(']');
    return found;
  }
  template <class F>
  Numbers combined(const Numbers& a, const Numbers& b, const F& f) const {
    const bool fits = (a.seeds == b.seeds || a.seeds == 0 || b.seeds == 0) &&
                      (a.length == b.length || a.length == 1 || b.length == 1);
    if (!fits) throw InputError(fmt::format("{}: operands have different numbers of seeds or entries", text_));
    Numbers result{.values = {}, .seeds = std::max(a.seeds, b.seeds), .length = std::max(a.length, b.length)};
    for (std::size_t seed = 0; seed < result.rows(); ++seed) {
      for (std::size_t i = 0; i < result.length; ++i) result.values.push_back(f(a.at(seed, i), b.at(seed, i)));
    }
    return result;
  }
  Numbers applied(const std::string& name, const Numbers& argument) const {
    for (const auto& [known, function] : functions) {
      if (known == name) return {mapped(argument.values, function), argument.seeds, argument.length};
    }
    if (std::ranges::find(reductions, name) == std::end(reductions)) {
      throw ConfigError(fmt::format("{}: unknown function {}: expected one of log, log2, exp, sqrt, abs, {}", text_,
                                    name, fmt::join(reductions, ", ")));
    }
    Numbers result{.values = {}, .seeds = argument.seeds, .length = 1};
    for (std::size_t seed = 0; seed < argument.rows(); ++seed) {
      const auto first = argument.values.begin() + static_cast<std::ptrdiff_t>(seed * argument.length);
      result.values.push_back(reduced(name, Entries(first, first + static_cast<std::ptrdiff_t>(argument.length))));
    }
    return result;
  }

  const std::string& text_;
  const Dataset& data_;
  std::size_t at_ = 0;
  int levels_ = 0;
};

}  // namespace

Numbers evaluate(const std::string& expression, const Dataset& data) { return Evaluator(expression, data).run(); }

std::string text_at(const std::string& reference, const Dataset& data) {
  const Reference found = Evaluator(reference, data).reference();
  const Column& column = column_of(data, found.column);
  const auto* texts = std::get_if<std::vector<std::string>>(&column.values);
  if (texts == nullptr) throw InputError(fmt::format("{}: expected text, found numbers", column.name));
  const Slice s = select(data, column, found);
  if (s.length != 1) throw InputError(fmt::format("{}: expected labels of all dimensions", column.name));
  return (*texts)[s.offset];
}

}  // namespace periscope::ledger
