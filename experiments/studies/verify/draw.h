#pragma once

#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <vector>

#include "sim/random/philox.h"

namespace periscope::verify {

/// Random choices for generated cases. They depend only on a seed and the case's number.
class Draw {
 public:
  explicit Draw(StreamKey key) : engine_(key) {}

  double uniform() { return (engine_() + 0.5) * 0x1p-32; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal() { return normal_(engine_); }
  bool chance(double p) { return uniform() < p; }
  int integer(int low, int high) { return low + static_cast<int>(uniform() * (high - low + 1)); }
  /// Returns 10^u with u uniform.
  double magnitude(double low, double high) { return std::pow(10.0, uniform(low, high)); }
  /// Returns an integer from low to high; small ones are more likely.
  int size(int low, int high) { return low + static_cast<int>(std::pow(uniform(), 3.0) * (high - low + 1)); }
  /// Returns one of the values, chosen uniformly.
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[integer(0, static_cast<int>(values.size()) - 1)];
  }

  std::vector<double> normals(int count, double scale) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& v : values) v = scale * normal();
    return values;
  }
  /// Returns a matrix of full rank or, with probability 0.15, of rank one.
  std::vector<double> matrix(int rows, int cols, double scale) {
    if (!chance(0.15)) return normals(rows * cols, scale);
    return rank_one(rows, cols, scale);
  }
  std::vector<double> rank_one(int rows, int cols, double scale) {
    const std::vector<double> left = normals(rows, scale);
    const std::vector<double> right = normals(cols, 1.0);
    std::vector<double> values;
    for (const double l : left) {
      for (const double r : right) values.push_back(l * r);
    }
    return values;
  }

 private:
  PhiloxEngine engine_;
  boost::random::normal_distribution<double> normal_;
};

}  // namespace periscope::verify
