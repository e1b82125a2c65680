#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

/// The columns of profiles, which several kinds of results have.
namespace periscope::dataset {

/// One version of every curve: its suffix and its meaning.
struct CurveVersion {
  std::string suffix;
  std::string meaning;
  std::string units = {};  ///< "": those of the statistic
};

/// Returns the columns that every result with profiles declares, for every statistic S and every version V, all real:
///   S_V        the stream at x_out, on (…, depth);       r_out_S_V  ResiDual's second stream, on the same dimensions;
///   site_S_V   every other site, on (…, site, sublayer);       weight_S_V on (…, weight, layer), of squared gradients;
/// and sublayer_labels. `leading` are the dimensions before these ("input placement").
std::vector<ColumnSpec> curve_columns(const std::string& leading, const std::vector<CurveVersion>& versions);
/// The dimensions after `leading`, with their coordinates.
std::vector<DimensionSpec> curve_dimensions();
/// Puts those coordinates. `weights` are the positions on the dimension `weight`, which is left out if there are none.
void put_curve_coordinates(Builder& result, const ModelSpec& model, std::size_t depths, std::size_t ranks,
                           std::span<const Weight> weights);
/// The positions on the dimension `weight` for such stacks: the matrices that every layer has and, if one of the stacks
/// has it, the attention's gate.
std::span<const Weight> weights_of_curves(const std::vector<StackSpec>& stacks);
std::size_t weight_index(Weight weight);

/// The columns that describe the positions on the dimension `sublayer`: sublayer_layer, sublayer_kind, sublayer_branch.
std::vector<ColumnSpec> sublayer_labels();
/// Puts the coordinate `sublayer` and its labels.
void put_sublayers(Builder& result, const ModelSpec& model);

/// Puts a matrix over pairs of depths, row-major; a stack with fewer additions than others has a smaller one.
void put_square(const Builder::Row& row, const std::string& column, const std::vector<double>& values);

/// The column placement_settings(placement): the keys in which a stack differs from the run's others.
ColumnSpec placement_settings();
/// Puts the coordinate `placement` and, unless `settings` is "", that column.
void put_placement(Builder& result, std::size_t index, const std::string& label, const std::string& settings);

template <class Named>
std::string text_of(Named it) {
  return std::string(name_of(it));
}

/// The number of sublayers in a step: those that read one stream.
std::size_t branches_of(const ModelSpec& model);

/// `row`, at the signal's site unless it runs over depth.
Builder::Row curve_row(const Builder::Row& row, Signal signal);

/// Puts one version of a curve: "second_moment_VERSION" of the stream, "r_out_second_moment_VERSION",
/// "site_second_moment_VERSION" of a signal that does not run over depth. A curve of Signal::sum runs over depth; each
/// value is stored at the last of the `branches` sublayers of its step. "weight_grad_sq_VERSION" of a matrix.
void put_curve(const Builder::Row& row, Statistic statistic, CurvePlace place, const std::string& version,
               const std::vector<double>& values, std::size_t branches = 1);

}  // namespace periscope::dataset
