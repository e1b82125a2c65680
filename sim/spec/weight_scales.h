#pragma once

#include <map>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// Describes how the variance of a matrix W [m, n] is spread over its entries (T29): W_ij has the standard deviation of
/// the matrix times rows_i·columns_j.
struct VarianceProfile {
  std::vector<double> rows = {};     ///< r_i ≥ 0 of mean square 1 [m], of a table over the rows in use; empty: 1
  std::vector<double> columns = {};  ///< c_j ≥ 0 of mean square 1 [n]; empty: 1
};

/// The sizes of given weights, trained ones say, and nothing else of them: random weights of these scales are
/// independent and centred, with the standard deviation that every matrix had, or every row and column of it, and the
/// gains that every norm had. What a stack of given weights does otherwise is alignment.
struct WeightScales {
  /// The root mean square of the entries, about 0, of every matrix and table, and of every bias that is not 0
  /// (ParameterId::Part::bias). That of a table is of the rows that the tokens use.
  std::map<ParameterId, double> stddev;
  /// The gains of every norm, QK-norms too, whole, one per channel, Gemma's + 1 included.
  std::map<ParameterId, std::vector<double>> gains;
  /// The profiles of matrices and tables whose entries are of unlike size; the others have one standard deviation.
  std::map<ParameterId, VarianceProfile> profiles = {};
  /// α of every norm that has one (ParameterId::Part::alpha).
  std::map<ParameterId, double> alphas = {};
};

/// The profile of a matrix or table; a side that is 1 everywhere is empty, as both are without scales. Throws
/// std::logic_error where a side does not have the matrix's rows or columns, or holds what is no size.
VarianceProfile profile_of(const StackSpec& spec, int layer, Weight weight);

/// True if some matrix has a profile: sizes differ inside matrices.
bool has_profiles(const StackSpec& spec);

}  // namespace periscope
