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
///   sum_maximum_V  the sum before norm C, on (…, depth);
///   site_S_V   every site, on (…, site, sublayer);       weight_S_V on (…, weight, layer), of squared gradients;
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

/// The position of a signal on the dimension site.
std::size_t site_of(Signal signal);

template <class Named>
std::string text_of(Named it) {
  return std::string(name_of(it));
}

/// The columns and the position at which a curve is stored. A curve of a stream is stored on (site, sublayer) too,
/// without its value at the stack's input: at the last of the sublayers of a step, of which there are `branches`.
class CurvePlace {
 public:
  CurvePlace(const Builder::Row& row, Statistic statistic, Signal signal, std::size_t branches = 1);
  CurvePlace(const Builder::Row& row, Statistic statistic, Weight weight);
  void put(const std::string& version, const std::vector<double>& values) const;

 private:
  std::string stem_;
  Builder::Row row_;
  std::string copy_stem_;
  Builder::Row copy_;
  std::size_t branches_ = 1;
};

}  // namespace periscope::dataset
