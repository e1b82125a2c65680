#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

/// Columns for profiles, shared by several result schemas.
namespace periscope::dataset {

/// A version of every curve, such as measured or predicted.
struct CurveVersion {
  std::string suffix;
  std::string meaning;
  std::string units = {};  ///< "": the units of the statistic
};

/// Returns the columns of a result with profiles, all real, for every statistic S and version V:
///   S_V        stream (x_out) on (…, depth);          r_out_S_V  ResiDual's second stream, same dimensions;
///   site_S_V   other sites on (…, site, sublayer);    weight_S_V  squared gradients on (…, weight, layer);
/// and sublayer_labels. `leading` lists the leading dimensions, such as "input placement".
std::vector<ColumnSpec> curve_columns(const std::string& leading, const std::vector<CurveVersion>& versions);
/// Returns the dimensions of these columns except `leading`.
std::vector<DimensionSpec> curve_dimensions();
/// Stores the coordinates of curve_dimensions for the stacks of a result; curves of shallower stacks are padded with
/// NaN.
void put_curve_coordinates(Builder& result, const std::vector<StackSpec>& stacks, std::size_t ranks);
std::size_t weight_index(Weight weight);

/// Returns the label columns of the dimension `sublayer`: sublayer_layer, sublayer_kind, sublayer_branch.
std::vector<ColumnSpec> sublayer_labels();
/// Stores the coordinate `sublayer` and its labels.
void put_sublayers(Builder& result, const ModelSpec& model);

/// Stores a square matrix over pairs of depths, row-major. Stacks with fewer depths have a smaller matrix.
void put_square(const Builder::Row& row, const std::string& column, const std::vector<double>& values);

/// Returns the column placement_settings(placement): the keys in which the stacks of a run differ.
ColumnSpec placement_settings();
/// Stores the coordinate `placement` and, unless `settings` is "", the column placement_settings.
void put_placement(Builder& result, std::size_t index, const std::string& label, const std::string& settings);

template <class Named>
std::string text_of(Named it) {
  return std::string(name_of(it));
}

/// Returns the number of parallel branches (sublayers) in a step.
std::size_t branches_of(const ModelSpec& model);

/// Returns `row` at the site of the signal; `row` itself for a signal on the dimension `depth`.
Builder::Row curve_row(const Builder::Row& row, Signal signal);

/// Stores one version of a curve in "second_moment_VERSION" (stream), "r_out_second_moment_VERSION",
/// "site_second_moment_VERSION" (signals of a sublayer) or "weight_grad_sq_VERSION" (matrices). A curve of Signal::sum
/// is indexed by depth; each value is stored at the last of the `branches` sublayers of its step.
void put_curve(const Builder::Row& row, Statistic statistic, CurvePlace place, const std::string& version,
               const std::vector<double>& values, std::size_t branches = 1);

}  // namespace periscope::dataset
