#include "sim/model/input.h"

#include <cmath>
#include <vector>

#include "sim/model/key_value_cache.h"

namespace periscope {

Tensor gaussian_input(const Backend& backend, const StackSpec& spec, DType dtype, std::uint64_t seed) {
  const InputSpec& input = spec.input;
  const int width = spec.model.width;
  const double own = std::sqrt(input.second_moment * (1.0 - input.correlation));
  Tensor x = backend.normal(input.tokens, width, dtype, {seed, 0, Stream::input}, own);
  if (input.correlation == 0.0) return x;
  const double common = std::sqrt(input.second_moment * input.correlation);
  const Tensor shared = backend.normal(1, width, dtype, {seed, 0, Stream::common_input}, common);
  return backend.axpby(1.0, x, 1.0,
                       backend.gather(shared, std::vector<int>(static_cast<std::size_t>(input.tokens), 0)));
}

namespace {

/// Returns the row of the position table for every token.
std::vector<int> positions_of(const StackContext& c, std::size_t tokens) {
  const std::size_t length = tokens / static_cast<std::size_t>(c.sequences);
  const int before = c.cache != nullptr ? static_cast<int>(c.cache->tokens()) : 0;
  std::vector<int> positions(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    positions[i] = before + static_cast<int>(i % length) + c.model.embedding.position_offset;
  }
  return positions;
}

/// Returns scale · E[ids] [ids.size(), embedding_width].
Tensor looked_up(const StackContext& c, std::span<const int> ids) {
  const Tensor rows = c.weights.rows(c.ops, Weight::embedding, ids);
  return c.model.embedding.scale == 1.0 ? rows : c.ops.scale(c.model.embedding.scale, rows);
}

}  // namespace

Tensor embedding_forward(const StackContext& c, std::span<const int> ids, const Hooks& hooks) {
  const EmbeddingSpec& e = c.model.embedding;
  const auto add_rows = [&](const Tensor& x, Weight table, const std::vector<int>& rows) {
    return c.ops.axpby(1.0, x, 1.0, c.weights.rows(c.ops, table, rows));
  };
  SublayerPass pass(c, hooks, -1, Pass::forward, Save::nothing);
  Tensor x = pass.emit(Signal::embedding, looked_up(c, ids));
  if (c.model.projects_embedding()) x = pass.linear(Weight::project_in, x);
  if (e.positions > 0) x = add_rows(x, Weight::positions, positions_of(c, ids.size()));
  if (e.token_types > 0) x = add_rows(x, Weight::token_types, std::vector<int>(ids.size(), 0));
  return x;
}

void embedding_backward(const StackContext& c, std::span<const int> ids, const Tensor& dinput, const Hooks& hooks) {
  const EmbeddingSpec& e = c.model.embedding;
  SublayerPass pass(c, hooks, -1, Pass::recomputation, Save::for_backward);
  const auto report = [&](Weight table, const Tensor& drows, const std::vector<int>& rows, Tensor::Index count) {
    pass.table_backward(table, [&] { return c.ops.scatter_add(drows, rows, count); });
  };
  if (e.positions > 0) report(Weight::positions, dinput, positions_of(c, ids.size()), e.positions);
  if (e.token_types > 0) report(Weight::token_types, dinput, std::vector<int>(ids.size(), 0), e.token_types);
  Tensor drows = dinput;
  if (c.model.projects_embedding()) {
    (void)pass.linear(Weight::project_in, pass.emit(Signal::embedding, looked_up(c, ids)));
    drows = pass.linear_backward(Weight::project_in, dinput);
  }
  drows = pass.emit_backward(Signal::embedding, drows);
  if (e.scale != 1.0) drows = c.ops.scale(e.scale, drows);
  report(Weight::embedding, drows, {ids.begin(), ids.end()}, c.model.vocab);
}

}  // namespace periscope
