#include "sim/model/input.h"

#include <cmath>
#include <vector>

#include "sim/model/primitives.h"

namespace periscope {

Tensor gaussian_input(const Backend& backend, const StackSpec& spec, DType dtype, std::uint64_t seed) {
  const InputSpec& input = spec.input;
  const int width = spec.model.width;
  const double own = std::sqrt(input.second_moment * (1.0 - input.correlation));
  Tensor x = backend.normal(input.tokens, width, dtype, {seed, 0, stream_input}, own);
  if (input.correlation == 0.0) return x;
  const double common = std::sqrt(input.second_moment * input.correlation);
  const Tensor shared = backend.normal(1, width, dtype, {seed, 0, stream_common_input}, common);
  return backend.axpby(1.0, x, 1.0,
                       backend.gather(shared, std::vector<int>(static_cast<std::size_t>(input.tokens), 0)));
}

namespace {

/// Rows of the position table, for every token.
std::vector<int> positions_of(const StackContext& c, std::size_t tokens) {
  const std::size_t length = tokens / static_cast<std::size_t>(c.sequences);
  std::vector<int> positions(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    positions[i] = static_cast<int>(i % length) + c.model.embedding.position_offset;
  }
  return positions;
}

/// scale · E[ids] [ids.size(), embedding_width].
Tensor looked_up(const StackContext& c, std::span<const int> ids) {
  const Tensor rows = c.weights.rows(c.ops, Weight::embedding, ids);
  return c.model.embedding.scale == 1.0 ? rows : c.ops.scale(c.model.embedding.scale, rows);
}

}  // namespace

Tensor embedding_forward(const StackContext& c, std::span<const int> ids) {
  const EmbeddingSpec& e = c.model.embedding;
  const auto add_rows = [&](const Tensor& x, Weight table, const std::vector<int>& rows) {
    return c.ops.axpby(1.0, x, 1.0, c.weights.rows(c.ops, table, rows));
  };
  Tensor x = looked_up(c, ids);
  if (c.model.projects_embedding()) x = linear_forward(c, 0, Weight::project_in, x);
  if (e.positions > 0) x = add_rows(x, Weight::positions, positions_of(c, ids.size()));
  if (e.token_types > 0) x = add_rows(x, Weight::token_types, std::vector<int>(ids.size(), 0));
  return x;
}

void embedding_backward(const StackContext& c, std::span<const int> ids, const Tensor& dinput,
                        GradientObserver& observer) {
  const EmbeddingSpec& e = c.model.embedding;
  if (e.positions > 0) {
    observer.on_weight(0, Weight::positions, c.ops.scatter_add(dinput, positions_of(c, ids.size()), e.positions));
  }
  if (e.token_types > 0) {
    observer.on_weight(0, Weight::token_types,
                       c.ops.scatter_add(dinput, std::vector<int>(ids.size(), 0), e.token_types));
  }
  Tensor drows = dinput;
  if (c.model.projects_embedding()) {
    drows = linear_backward(c, 0, Weight::project_in, looked_up(c, ids), dinput, observer);
  }
  if (e.scale != 1.0) drows = c.ops.scale(e.scale, drows);
  observer.on_weight(0, Weight::embedding, c.ops.scatter_add(drows, ids, c.model.vocab));
}

}  // namespace periscope
