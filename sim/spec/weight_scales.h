#pragma once

#include <map>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// Variance profile of a matrix W [m, n] (T29): the standard deviation of W_ij is rows_i·columns_j times the matrix's.
struct VarianceProfile {
  std::vector<double> rows = {};  ///< [m], r_i ≥ 0, mean square 1 (over the rows in use for a table); empty means 1
  std::vector<double> columns = {};  ///< [n], c_j ≥ 0, mean square 1; empty means 1
};

/// Scales of given weights, such as trained ones. Random weights with these scales are independent and centred. They
/// share the standard deviation of every matrix, or of its rows and columns, and the gains of every norm. The remaining
/// difference from the given weights is alignment.
struct WeightScales {
  /// Root mean square of the entries of matrices, tables (over the rows used by the tokens) and nonzero biases.
  std::map<ParameterId, double> stddev;
  /// One gain per channel of every norm, including the + 1 of Gemma's norms.
  std::map<ParameterId, std::vector<double>> gains;
  /// Profiles of matrices and tables whose entries differ in scale.
  std::map<ParameterId, VarianceProfile> profiles = {};
  std::map<ParameterId, double> alphas = {};
};

/// Variance profile of a matrix or table; `rows` or `columns` is empty if all its entries are 1. Throws
/// std::logic_error if either has the wrong length, or an entry that is negative or not finite.
VarianceProfile profile_of(const StackSpec& spec, int layer, Weight weight);

/// True if scales differ within some matrix.
bool has_profiles(const StackSpec& spec);

}  // namespace periscope
