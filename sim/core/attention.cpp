#include "sim/core/checks.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

void check_sequences(const Checks& check, std::string_view name, const Tensor& x, int sequences) {
  check.require(sequences >= 1 && x.rows() % sequences == 0, "{} {} does not fall into {} sequences of equal length",
                name, shape_of(x), sequences);
}

void check_rope(const Checks& check, std::string_view name, const Tensor& x, int heads, int sequences,
                std::span<const double> frequencies) {
  check_sequences(check, name, x, sequences);
  check.require(heads >= 1 && x.cols() % (2 * heads) == 0, "{} {} does not fall into {} heads of equal, even width",
                name, shape_of(x), heads);
  check.require(static_cast<Index>(frequencies.size()) == x.cols() / heads / 2,
                "there must be {} frequencies, found {} for {} {} with {} heads", x.cols() / heads / 2,
                frequencies.size(), name, shape_of(x), heads);
}

void check_attention(const Checks& check, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionShape& shape) {
  check.require(shape.heads >= 1 && shape.kv_heads >= 1 && shape.head_dim >= 1 && shape.heads % shape.kv_heads == 0,
                "{} query heads cannot share {} key/value heads of width {}", shape.heads, shape.kv_heads,
                shape.head_dim);
  check.shape("q", q, Checks::any, Index{shape.heads} * shape.head_dim);
  check.shape("k", k, q.rows(), Index{shape.kv_heads} * shape.head_dim);
  check.shape("v", v, q.rows(), Index{shape.kv_heads} * shape.head_dim);
  check_sequences(check, "q", q, shape.sequences);
}

}  // namespace

Tensor Backend::rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies) const {
  const Checks check(*this, Op::rope, {{"x", x}});
  check_rope(check, "x", x, heads, sequences, frequencies);
  Tensor y = like(x);
  do_rope(x, heads, sequences, frequencies, y);
  return y;
}

Tensor Backend::rope_backward(const Tensor& dy, int heads, int sequences, std::span<const double> frequencies) const {
  const Checks check(*this, Op::rope_backward, {{"dy", dy}});
  check_rope(check, "dy", dy, heads, sequences, frequencies);
  Tensor dx = like(dy);
  do_rope_backward(dy, heads, sequences, frequencies, dx);
  return dx;
}

Attended Backend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape) const {
  const Checks check(*this, Op::attention, {{"q", q}, {"k", k}, {"v", v}});
  check_attention(check, q, k, v, shape);
  Attended a{.mixed = like(q), .scores = do_allocate(q.rows(), shape.heads, q.dtype())};
  do_attention(q, k, v, shape, a);
  return a;
}

AttentionGradient Backend::attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                                              const AttentionShape& shape) const {
  const Checks check(*this, Op::attention_backward, {{"q", q}, {"k", k}, {"v", v}, {"dy", dy}});
  check_attention(check, q, k, v, shape);
  check.shape("dy", dy, q.rows(), q.cols());
  AttentionGradient g{.dq = like(q), .dk = like(k), .dv = like(v)};
  do_attention_backward(q, k, v, dy, shape, g);
  return g;
}

}  // namespace periscope
