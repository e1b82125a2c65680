#pragma once

#include <span>
#include <vector>

#include "sim/core/backend.h"

/// The CPU kernels, one template each, instantiated for float and double in their .cpp. Formulas are
/// those of Backend's ops.
namespace periscope::cpu {

using Index = Tensor::Index;

template <class T>
void linear(const T* x, const T* w, T* y, Index rows, Index in, Index out);
template <class T>
void axpby(double a, const T* x, double b, const T* y, T* z, Index size);
template <class T>
void scale(double a, const T* x, T* y, Index size);
template <class T>
void norm(NormKind kind, const T* x, const T* gain, const T* bias, double eps, T* y, Index parts, Index n);
template <class T>
void add_row(const T* x, const T* row, T* y, Index rows, Index cols);
template <class T>
void column_sums(const T* x, T* sums, Index rows, Index cols);
template <class T>
void rope(const T* x, T* y, Index rows, int heads, Index head_dim, Index tokens, std::span<const double> frequencies);
template <class T>
void attention(const T* q, const T* k, const T* v, T* y, T* scores, Index rows, const AttentionShape& shape);
template <class T>
void activate(Activation kind, const T* x, T* y, Index size);
template <class T>
void gated(Activation kind, const T* gate, const T* up, T* y, Index size);
template <class T>
void soft_cap(double cap, const T* x, T* y, Index size);

template <class T>
void linear_backward_input(const T* dy, const T* w, T* dx, Index rows, Index in, Index out);
template <class T>
void linear_backward_weight(const T* dy, const T* x, T* dw, Index rows, Index in, Index out);
template <class T>
void scatter_add(const T* dy, std::span<const int> ids, T* sums, Index rows, Index cols);
template <class T>
void norm_backward(NormKind kind, const T* x, const T* gain, const T* dy, double eps, T* dx, T* dgain, T* dbias,
                   Index parts, Index n);
template <class T>
void rope_backward(const T* dy, T* dx, Index rows, int heads, Index head_dim, Index tokens,
                   std::span<const double> frequencies);
template <class T>
void attention_backward(const T* q, const T* k, const T* v, const T* dy, T* dq, T* dk, T* dv, Index rows,
                        const AttentionShape& shape);
template <class T>
void activate_backward(Activation kind, const T* x, const T* dy, T* dx, Index size);
template <class T>
void gated_backward(Activation kind, const T* gate, const T* up, const T* dy, T* dgate, T* dup, Index size);
template <class T>
void soft_cap_backward(double cap, const T* x, const T* dy, T* dx, Index size);
/// Writes dlogits, returns the loss.
template <class T>
double cross_entropy(const T* logits, std::span<const int> labels, T* dlogits, Index classes);

template <class T>
RowMoments row_moments(const T* x, Index rows, Index cols);
template <class T>
std::vector<double> row_dots(const T* x, const T* y, Index rows, Index cols);
template <class T>
double token_cosine(const T* x, Index rows, Index cols, int sequences);
template <class T>
std::vector<double> column_maxima(const T* x, Index rows, Index cols);
template <class T>
std::vector<double> top_magnitudes(const T* x, Index size, int count);
template <class T>
std::vector<Entry> top_entries(const T* x, Index rows, Index cols, int count);
template <class T>
double median_magnitude(const T* x, Index size);
template <class T>
std::vector<double> token_losses(const T* logits, std::span<const int> labels, Index classes);

}  // namespace periscope::cpu
