#include "sim/core/checks.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

void check_sequences(const Checks& check, std::string_view name, const Tensor& x, int sequences) {
  check.require(sequences >= 1 && x.rows() % sequences == 0, "{} {} cannot be split into {} sequences of equal length",
                name, shape_of(x), sequences);
}

void check_rope(const Checks& check, std::string_view name, const Tensor& x, int heads, int sequences,
                std::span<const double> frequencies) {
  check_sequences(check, name, x, sequences);
  check.require(heads >= 1 && x.cols() % (Index{2} * heads) == 0,
                "{} {} cannot be split into {} heads of equal, even width", name, shape_of(x), heads);
  check.require(static_cast<Index>(frequencies.size()) == x.cols() / heads / 2,
                "expected {} frequencies, found {} for {} {} with {} heads", x.cols() / heads / 2, frequencies.size(),
                name, shape_of(x), heads);
}

void check_heads(const Checks& check, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape) {
  check.require(shape.heads >= 1 && shape.kv_heads >= 1 && shape.head_dim >= 1 && shape.heads % shape.kv_heads == 0,
                "{} query heads cannot share {} key/value heads of width {}", shape.heads, shape.kv_heads,
                shape.head_dim);
  check.shape("q", q, Checks::any, Index{shape.heads} * shape.head_dim);
  check_sequences(check, "q", q, shape.sequences);
  check.shape("k", k, Checks::any, Index{shape.kv_heads} * shape.head_dim);
  check_sequences(check, "k", k, shape.sequences);
  check.shape("v", v, k.rows(), k.cols());
}

}  // namespace

Tensor Backend::rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies,
                     Index offset) const {
  const Checks check(*this, op::Rope::facts, {{"x", x}});
  check_rope(check, "x", x, heads, sequences, frequencies);
  check.require(offset >= 0, "offset must not be negative, found {}", offset);
  return run_into<op::Rope>(like(x), x, heads, sequences, frequencies, offset);
}

Tensor Backend::rope_backward(const Tensor& dy, int heads, int sequences, std::span<const double> frequencies) const {
  const Checks check(*this, op::RopeBackward::facts, {{"dy", dy}});
  check_rope(check, "dy", dy, heads, sequences, frequencies);
  return run_into<op::RopeBackward>(like(dy), dy, heads, sequences, frequencies);
}

AttentionOutput Backend::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionShape& shape) const {
  const Checks check(*this, op::Attention::facts, {{"q", q}, {"k", k}, {"v", v}});
  check_heads(check, q, k, v, shape);
  const Index tokens = q.rows() / shape.sequences;
  const Index keys = k.rows() / shape.sequences;
  check.require(shape.offset >= 0 && shape.offset + tokens <= keys,
                "{} queries at offset {} require at least {} keys, found {} for q {}, k {}", tokens, shape.offset,
                shape.offset + tokens, keys, shape_of(q), shape_of(k));
  return run_into<op::Attention>(
      AttentionOutput{.mixed = like(q), .scores = do_allocate(q.rows(), shape.heads, q.dtype())}, q, k, v, shape);
}

AttentionGradient Backend::attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                                              const AttentionShape& shape) const {
  const Checks check(*this, op::AttentionBackward::facts, {{"q", q}, {"k", k}, {"v", v}, {"dy", dy}});
  check_heads(check, q, k, v, shape);
  check.require(shape.offset == 0 && k.rows() == q.rows(),
                "requires as many keys as queries and offset 0, found q {}, k {}, offset {}", shape_of(q), shape_of(k),
                shape.offset);
  check.shape("dy", dy, q.rows(), q.cols());
  return run_into<op::AttentionBackward>(AttentionGradient{.dq = like(q), .dk = like(k), .dv = like(v)}, q, k, v, dy,
                                         shape);
}

}  // namespace periscope
