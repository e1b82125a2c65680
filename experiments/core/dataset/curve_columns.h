#pragma once

#include <string>
#include <vector>

#include "experiments/core/dataset/columns.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

namespace periscope {

/// One version of every curve: its suffix and what it is in words.
struct CurveVersion {
  std::string suffix;
  std::string meaning;
  std::string units = {};  ///< "": those of the statistic
};

/// What every result with profiles declares, for every statistic S and every version V:
///   S_V        the stream at x_out, on (…, depth);       r_out_S_V  ResiDual's second stream, likewise;
///   site_S_V   every site, on (…, site, sublayer);       weight_S_V on (…, weight, layer), of squared gradients.
/// `leading` are the dimensions in front ("input placement "), `json` the path in front ("cells/[cell]/").
std::vector<ColumnSpec> curve_columns(const std::string& leading, const std::string& json,
                                      const std::vector<CurveVersion>& versions);
/// The dimensions behind `leading`, with their coordinates.
std::vector<DimensionSpec> curve_dimensions();
void put_curve_coordinates(Columns& columns, std::size_t sublayers, std::size_t ranks, bool weights);

/// The position of a signal on the dimension site.
std::size_t site_of(Signal signal);

template <class Named>
std::string text_of(Named it) {
  return std::string(name_of(it));
}

/// Where a curve stands. A stream stands on (site, sublayer) too, in files alone and without the stack's input.
class CurvePlace {
 public:
  CurvePlace(const Columns::Row& row, Statistic statistic, Signal signal);
  CurvePlace(const Columns::Row& row, Statistic statistic, Weight weight);
  void put(const std::string& version, Columns::Json values) const;

 private:
  std::string stem_;
  Columns::Row row_;
  std::string copy_stem_;
  Columns::Row copy_;
};

}  // namespace periscope
