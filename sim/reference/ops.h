#pragma once

#include <span>
#include <vector>

#include "sim/core/backend.h"

/// The formulas of Backend's ops on plain arrays. Nothing here is clever: every fast path is tested
/// against these loops.
namespace periscope::reference {

using Index = Tensor::Index;

/// y [rows, out] = x [rows, in] · wᵀ, w [out, in].
void linear(const double* x, const double* w, double* y, Index rows, Index in, Index out);
/// T2 on one vector of n features; bias may be null.
void norm(NormKind kind, const double* x, const double* gain, const double* bias, double eps, double* y, Index n);
/// One head of one token at `position`.
void rope(const double* x, double* y, Index head_dim, Index position, std::span<const double> frequencies);
/// q [rows, heads·e], k and v [rows, kv_heads·e] → y [rows, heads·e], largest |scores| [rows, heads].
void attention(const double* q, const double* k, const double* v, double* y, double* scores, Index rows,
               const AttentionShape& shape);
/// What ScoreRule makes of q·k.
double score(const AttentionShape& shape, double dot);
double activation(Activation kind, double x);
double soft_cap(double cap, double x);

/// dx [rows, in] = dy [rows, out] · w [out, in].
void linear_backward_input(const double* dy, const double* w, double* dx, Index rows, Index in, Index out);
/// dw [out, in] = dyᵀ x, dy [rows, out], x [rows, in].
void linear_backward_weight(const double* dy, const double* x, double* dw, Index rows, Index in, Index out);
/// One vector of n features: writes dx, adds to dgain and dbias.
void norm_backward(NormKind kind, const double* x, const double* gain, const double* dy, double eps, double* dx,
                   double* dgain, double* dbias, Index n);
/// One head of one token at `position`.
void rope_backward(const double* dy, double* dx, Index head_dim, Index position, std::span<const double> frequencies);
/// Shapes as in attention; dq, dk, dv are zero before.
void attention_backward(const double* q, const double* k, const double* v, const double* dy, double* dq, double* dk,
                        double* dv, Index rows, const AttentionShape& shape);
double activation_slope(Activation kind, double x);
double soft_cap_slope(double cap, double x);
/// Writes dlogits [rows, classes], returns the loss.
double cross_entropy(const double* logits, const int* labels, double* dlogits, Index rows, Index classes);

RowMoments row_moments(const double* x, Index rows, Index cols);
std::vector<double> row_dots(const double* x, const double* y, Index rows, Index cols);
/// The mean over pairs, pair by pair.
double token_cosine(const double* x, Index rows, Index cols, int sequences);
std::vector<double> column_maxima(const double* x, Index rows, Index cols);
std::vector<double> top_magnitudes(const double* x, Index size, int count);
std::vector<Entry> top_entries(const double* x, Index rows, Index cols, int count);
double median_magnitude(const double* x, Index size);
std::vector<double> token_losses(const double* logits, const int* labels, Index rows, Index classes);

}  // namespace periscope::reference
