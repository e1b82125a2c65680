#pragma once

#include <map>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// Variance of a matrix W [m, n] over its entries (T29): W_ij has the standard deviation of the matrix times
/// rows_i·columns_j.
struct VarianceProfile {
  std::vector<double> rows = {};     ///< r_i ≥ 0 of mean square 1 [m], of a table over the rows in use; empty: 1
  std::vector<double> columns = {};  ///< c_j ≥ 0 of mean square 1 [n]; empty: 1
};

/// The sizes of given weights, such as trained ones. Random weights of these scales are independent and centred, with
/// the standard deviation of every matrix, or of its rows and columns, and the gains of every norm. What a stack of the
/// given weights does differently is alignment.
struct WeightScales {
  /// Root mean square of the entries of every matrix and table (over the rows that the tokens use) and of every bias
  /// that is not 0.
  std::map<ParameterId, double> stddev;
  /// Of every norm, one per channel, Gemma's + 1 included.
  std::map<ParameterId, std::vector<double>> gains;
  /// Of matrices and tables whose entries differ in size.
  std::map<ParameterId, VarianceProfile> profiles = {};
  std::map<ParameterId, double> alphas = {};
};

/// The profile of a matrix or table; a side that is 1 everywhere is empty. Throws std::logic_error if a side has
/// another length than the matrix, or an entry that is negative or not finite.
VarianceProfile profile_of(const StackSpec& spec, int layer, Weight weight);

/// True if sizes differ inside some matrix.
bool has_profiles(const StackSpec& spec);

}  // namespace periscope
