#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/engine/result/builder.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

/// The columns of profiles, which several kinds of results have.
namespace periscope::dataset {

/// One version of every curve: its suffix and what it is in words.
struct CurveVersion {
  std::string suffix;
  std::string meaning;
  std::string units = {};  ///< "": those of the statistic
};

/// Returns the columns that every result with profiles declares, for every statistic S and every version V, all real:
///   S_V        the stream at x_out, on (…, depth);       r_out_S_V  ResiDual's second stream, likewise;
///   site_S_V   every other site, on (…, site, sublayer);       weight_S_V on (…, weight, layer), of squared gradients;
/// and what the positions on `sublayer` are: sublayer_layer, sublayer_kind, sublayer_branch. `leading` are the
/// dimensions before these ("input placement").
std::vector<ColumnSpec> curve_columns(const std::string& leading, const std::vector<CurveVersion>& versions);
/// Returns the columns that describe the positions on the dimension `sublayer`, for every result that has it.
std::vector<ColumnSpec> sublayer_labels();
/// The coordinates of `sublayer` and its labels.
void put_sublayers(Builder& result, const ModelSpec& model);
/// The dimensions behind `leading`, with their coordinates.
std::vector<DimensionSpec> curve_dimensions();
/// `weights` are those of the dimension `weight`, which is left out if there are none.
void put_curve_coordinates(Builder& result, const ModelSpec& model, std::size_t depths, std::size_t ranks,
                           std::span<const Weight> weights);
/// The matrices of the dimension `weight` of a result on such stacks: those that every layer has and, if one of the
/// stacks has it, the attention's gate.
std::span<const Weight> weights_of_curves(const std::vector<StackSpec>& stacks);
/// The position of a matrix on the dimension weight.
std::size_t weight_index(Weight weight);

/// Puts a matrix over pairs of depths, row-major: of a stack with fewer additions than others it is a smaller one.
void put_square(const Builder::Row& row, const std::string& column, const std::vector<double>& values);

/// The column placement_settings(placement): the keys in which a stack differs from the run's others. It is there if
/// there are others.
ColumnSpec placement_settings();
/// The coordinate `placement` and, unless it is "", that column.
void put_placement(Builder& result, std::size_t index, const std::string& label, const std::string& settings);

template <class Named>
std::string text_of(Named it) {
  return std::string(name_of(it));
}

/// Sublayers of a step: those that read one stream.
std::size_t branches_of(const ModelSpec& model);

/// The name of a curve's columns without their version: "second_moment" of the stream, which with "r_out_second_moment"
/// runs over depth; "site_second_moment" of any other signal.
std::string curve_stem(Statistic statistic, Signal signal);
/// `row`, at the signal's site unless it runs over depth.
Builder::Row curve_row(const Builder::Row& row, Signal signal);

/// Puts one version of a curve. Sums are curves over depth, each stored at the last of the `branches` sublayers of its
/// step.
void put_curve(const Builder::Row& row, Statistic statistic, Signal signal, const std::string& version,
               const std::vector<double>& values, std::size_t branches = 1);
void put_curve(const Builder::Row& row, Statistic statistic, Weight weight, const std::string& version,
               const std::vector<double>& values, std::size_t branches = 1);

}  // namespace periscope::dataset
