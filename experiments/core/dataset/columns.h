#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/core/dataset/dataset.h"
#include "experiments/core/dataset/schema.h"

namespace periscope {

/// A result: values in the columns that its schema declares, put there row by row. JSON and files are written from it,
/// each by one writer for all kinds of results.
class Columns {
 public:
  using Json = nlohmann::ordered_json;

  /// `origin`: the provenance. It goes into the file's attributes, and into JSON under "provenance", with "result" and
  /// "result_version", the schema's kind and version. The schema must outlive the result.
  Columns(const Schema& schema, Json origin);

  /// A position on some dimensions, at which a row is put.
  class Row {
   public:
    /// The same at `index` on one more dimension, with its label where a path in JSON asks for one. A dimension that
    /// the schema does not have gives a list in JSON its order alone.
    [[nodiscard]] Row at(std::string dimension, std::size_t index, std::string_view label = {}) const;
    /// The same, for files alone: what JSON says elsewhere, or says by leaving it out.
    [[nodiscard]] Row for_files() const;
    /// The same, for JSON alone.
    [[nodiscard]] Row for_json() const;
    /// The values on the dimensions of `column` that the row leaves open, in their order, row-major; JSON gets them as
    /// nested arrays, files have NaN or "" behind the last one. Numbers, words, or flags. Throws std::logic_error for
    /// a column that was not declared, and for more values than there is room.
    void put(std::string_view column, Json values) const;

   private:
    friend class Columns;
    struct Step {
      std::string dimension;
      std::size_t index;
      std::string label;
    };
    explicit Row(Columns& columns) : columns_(&columns) {}
    Columns* columns_;
    std::vector<Step> steps_;
    bool files_ = true;
    bool json_ = true;
  };

  [[nodiscard]] Row row() { return Row(*this); }
  [[nodiscard]] Row at(std::string dimension, std::size_t index, std::string_view label = {}) {
    return row().at(std::move(dimension), index, label);
  }
  void put(std::string_view column, Json values) { row().put(column, std::move(values)); }
  /// The coordinate first, first + 1, …
  void count(std::string_view dimension, std::size_t length, int first = 0);
  /// Files have this column even if nothing is put there.
  void mention(std::string_view column);

  /// The objects and lists that the paths of the columns say, in the order in which they were put. Numbers that are
  /// not finite become null.
  [[nodiscard]] Json json() const;
  /// The columns in which anything was put, in their declared order; NaN and "" where nothing was. A dimension is as
  /// long as its coordinate, or else as what was put along it.
  [[nodiscard]] periscope::dataset::Dataset dataset() const;

 private:
  struct Entry {
    std::size_t column;
    std::vector<Row::Step> steps;
    Json values;
    bool files, json;  ///< who has it
  };
  [[nodiscard]] std::vector<std::size_t> lengths() const;
  void fill(periscope::dataset::Column& variable, const std::vector<std::size_t>& shape, const Entry& entry) const;

  const Schema* schema_;
  Json origin_;
  std::vector<Entry> entries_;
};

}  // namespace periscope
