#include "sim/model/key_value_cache.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {

const KeysAndValues& KeyValueCache::extend(const Backend& ops, int layer, const Tensor& k, const Tensor& v) {
  if (tokens_ + k.rows() > capacity_) {
    throw std::length_error("key/value cache: expected at most " + std::to_string(capacity_) + " tokens, found " +
                            std::to_string(tokens_ + k.rows()));
  }
  KeysAndValues& cached = layers_.at(static_cast<std::size_t>(layer));
  const auto put = [&](Tensor& all, const Tensor& rows) {
    if (all.empty()) all = ops.constant(capacity_, rows.cols(), rows.dtype(), 0.0);
    all = ops.replace_rows(std::move(all), tokens_, rows);
  };
  put(cached.k, k);
  put(cached.v, v);
  return cached;
}

Tensor next_logits(const StackContext& context, KeyValueCache& cache, std::span<const int> ids) {
  if (!context.model.causal || context.sequences != 1) {
    throw std::invalid_argument("a key/value cache supports only one sequence of a causal model");
  }
  if (ids.empty()) throw std::invalid_argument("expected at least one token, found none");
  StackContext c = context;
  c.cache = &cache;
  const Tensor output = stack_forward(c, embedding_forward(c, ids)).output;
  cache.advance(static_cast<Tensor::Index>(ids.size()));
  const std::vector<int> last{static_cast<int>(ids.size()) - 1};
  return logits_forward(c, c.ops.gather(output, last));
}

}  // namespace periscope
