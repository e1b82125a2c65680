#pragma once

#include <map>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// Variance profile of a matrix W [m, n] (T29): W_ij has the matrix's standard deviation times rows_i·columns_j.
struct VarianceProfile {
  std::vector<double> rows = {};  ///< r_i ≥ 0 with mean square 1 [m]; for a table, over the rows in use; empty means 1
  std::vector<double> columns = {};  ///< c_j ≥ 0 with mean square 1 [n]; empty means 1
};

/// Scales of given weights, such as trained ones. Random weights with these scales are independent and centred. They
/// share the standard deviation of every matrix, or of its rows and columns, and the gains of every norm. The remaining
/// difference to the given weights is alignment.
struct WeightScales {
  /// Root mean square of the entries of matrices, tables (over the rows used by the tokens) and nonzero biases.
  std::map<ParameterId, double> stddev;
  /// One gain per channel of every norm, including the + 1 of Gemma's norms.
  std::map<ParameterId, std::vector<double>> gains;
  /// Matrices and tables whose entries differ in scale.
  std::map<ParameterId, VarianceProfile> profiles = {};
  std::map<ParameterId, double> alphas = {};
};

/// Variance profile of a matrix or table; a side that is 1 everywhere is empty. Throws std::logic_error if a side has
/// the wrong length, or an entry that is negative or not finite.
VarianceProfile profile_of(const StackSpec& spec, int layer, Weight weight);

/// True if scales differ within some matrix.
bool has_profiles(const StackSpec& spec);

}  // namespace periscope
