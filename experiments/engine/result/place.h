#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace periscope::dataset {

/// A column's place in JSON: the keys and lists above it. Dimensions that no step of it fixes become nested arrays.
///   Place() / "worst" / "z"                          {"worst": {"z": …}}
///   Place("cells").each({"input", "placement"}) / "z"  {"cells": [{"input": …, "placement": …, "z": …}, …]}
///   Place("sites").by("site") / "z"                  {"sites": {"x_in": {"z": …}, …}}
class Place {
 public:
  struct Step {
    enum class Kind {
      key,   ///< an entry of an object, called `names[0]`
      each,  ///< an element of a list: the position on the dimensions `names`, row-major
      by,    ///< an entry of an object, called as the coordinate of dimension `names[0]` says
    };
    Kind kind;
    std::vector<std::string> names;
  };

  Place() = default;
  explicit Place(std::string_view key) : Place(Place() / key) {}
  [[nodiscard]] Place operator/(std::string_view key) const;
  [[nodiscard]] Place each(std::vector<std::string> dimensions) const;
  [[nodiscard]] Place by(std::string_view dimension) const;
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] bool fixes(std::string_view dimension) const;
  /// For people: "cells[input, placement].sites.<site>.z".
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] Place with(Step step) const;
  std::vector<Step> steps_;
};

}  // namespace periscope::dataset
