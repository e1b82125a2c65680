#include "theory/passes/gradient_streams.h"

#include <algorithm>
#include <utility>

namespace periscope::theory {
namespace {

void add_to(Matrix& sum, double weight, const Matrix& x) {
  if (weight == 0.0 || x.size() == 0) return;
  if (sum.size() == 0) {
    sum = weight * x;
  } else {
    sum += weight * x;
  }
}

}  // namespace

GradientStreams::GradientStreams(const Matrix& output, const Matrix& once, const Matrix& twice, const StreamEnds& ends)
    : g_(ends.names.size(), std::vector<Matrix>(ends.names.size())), tokens_(output.rows()) {
  // The output is plain + N(normed): of one gradient, with and without the norm on either side.
  for (std::size_t i = 0; i < count(); ++i) {
    for (std::size_t j = i; j < count(); ++j) {
      add_to(g_[i][j], ends.plain[i] * ends.plain[j], output);
      add_to(g_[i][j], ends.normed[i] * ends.plain[j], once);
      add_to(g_[i][j], ends.plain[i] * ends.normed[j], Matrix(once.transpose()));
      add_to(g_[i][j], ends.normed[i] * ends.normed[j], twice);
    }
  }
}

Matrix GradientStreams::at(std::size_t i, std::size_t j) const {
  if (i <= j) return g_[i][j];
  return g_[j][i].size() == 0 ? Matrix() : Matrix(g_[j][i].transpose());
}

void GradientStreams::scale(std::size_t stream, const Vector& factor) {
  for (std::size_t i = 0; i < count(); ++i) {
    for (std::size_t j = i; j < count(); ++j) {
      Matrix& g = g_[i][j];
      if (g.size() == 0) continue;
      if (i == stream && j == stream) {
        g = factor.asDiagonal() * g * factor.asDiagonal();
      } else if (i == stream) {
        g = factor.asDiagonal() * g;
      } else if (j == stream) {
        g = g * factor.asDiagonal();
      }
    }
  }
}

Matrix GradientStreams::sum(const std::vector<double>& weights) const {
  const double common = *std::ranges::max_element(weights);
  const bool alike = common > 0.0 && std::ranges::all_of(weights, [&](double w) { return w == 0.0 || w == common; });
  const auto weight = [&](std::size_t i, std::size_t j) {
    if (weights[i] == 0.0 || weights[j] == 0.0) return 0.0;
    return alike ? 1.0 : weights[i] * weights[j];
  };
  Matrix all;
  add_to(all, weight(0, 0), g_[0][0]);
  Matrix others;
  for (std::size_t i = 1; i < count(); ++i) add_to(others, weight(i, i), g_[i][i]);
  for (std::size_t i = 0; i < count(); ++i) {
    for (std::size_t j = i + 1; j < count(); ++j) {
      add_to(others, weight(i, j), g_[i][j]);
      add_to(others, weight(i, j), at(j, i));
    }
  }
  add_to(all, 1.0, others);
  if (all.size() == 0) return Matrix::Zero(tokens_, tokens_);
  if (alike) all *= common * common;
  return all;
}

void GradientStreams::back(const Step& step, const std::vector<Matrix>& read) {
  std::vector<std::vector<Matrix>> before(count(), std::vector<Matrix>(count()));
  for (std::size_t i = 0; i < count(); ++i) {
    for (std::size_t j = i; j < count(); ++j) {
      Matrix& g = before[i][j];
      for (std::size_t k = 0; k < count(); ++k) {
        for (std::size_t l = 0; l < count(); ++l) add_to(g, step.mixing[k][i] * step.mixing[l][j], at(k, l));
      }
      for (std::size_t b = 0; b < read.size(); ++b) {
        add_to(g, step.branches[b].reads[i] * step.branches[b].reads[j], read[b]);
      }
    }
  }
  g_ = std::move(before);
}

double GradientStreams::of_stream(const StreamEnds& ends, bool of_input) const {
  const bool parts = ends.parts_of_stream() > 1;
  if (of_input && !parts) return sum(std::vector<double>(count(), 1.0)).diagonal().mean();
  double all = 0.0;
  for (std::size_t i = 0; i < (parts ? count() : 1); ++i) {
    if (g_[i][i].size() > 0) all += g_[i][i].diagonal().mean();
  }
  return all;
}

}  // namespace periscope::theory
