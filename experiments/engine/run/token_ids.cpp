#include "experiments/engine/run/token_ids.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"
#include "sim/random/philox.h"

namespace periscope::stacks {
namespace {

/// Returns bytes first … first + T − 1 of a text. Throws InputError for a text of fewer than T + 1 bytes.
std::vector<int> bytes_of(const InputSpec& input, std::ptrdiff_t first) {
  const TextFile& text = config::text_of(input);
  if (text.head.size() <= static_cast<std::size_t>(input.tokens)) {
    throw InputError(fmt::format("input.path {}: expected at least {} bytes (input.tokens + 1), found {}", input.path,
                                 input.tokens + 1, text.size));
  }
  const auto begin = text.head.begin() + first;
  std::vector<int> ids(begin, begin + input.tokens);
  for (int& id : ids) id &= 0xff;
  return ids;
}

std::vector<int> uniform_ids(StreamKey key, int classes, int count) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  fill_uniform_int(key, classes, ids);
  return ids;
}

/// Returns ids_of(spec, s) for every seed s, or only for the first seed if all seeds read the same text.
std::vector<std::vector<int>> distinct(const StackSpec& spec, std::uint64_t seed, int seeds,
                                       std::vector<int> (*ids_of)(const StackSpec&, std::uint64_t)) {
  std::vector<std::vector<int>> all;
  const int count = spec.input.kind == InputKind::text ? 1 : seeds;
  for (int i = 0; i < count; ++i) all.push_back(ids_of(spec, seed + static_cast<std::uint64_t>(i)));
  return all;
}

}  // namespace

std::vector<int> token_ids(const StackSpec& spec, std::uint64_t seed) {
  if (spec.input.kind == InputKind::gaussian) return {};
  if (spec.input.kind == InputKind::text) return bytes_of(spec.input, 0);
  return uniform_ids({seed, 0, Stream::token_ids}, spec.model.vocab, spec.input.tokens);
}

std::vector<int> label_ids(const StackSpec& spec, std::uint64_t seed) {
  const ModelSpec& m = spec.model;
  const int classes = m.unembedding ? m.vocab : m.width;
  if (spec.input.kind != InputKind::text) return uniform_ids({seed, 0, Stream::labels}, classes, spec.input.tokens);
  std::vector<int> labels = bytes_of(spec.input, 1);
  const int largest = *std::ranges::max_element(labels);
  if (largest >= classes) {
    throw ConfigError(fmt::format("{} = {}: expected more classes than {}, the largest label in {}",
                                  m.unembedding ? "model.vocab" : "model.width", classes, largest, spec.input.path));
  }
  return labels;
}

std::vector<std::vector<int>> distinct_token_ids(const StackSpec& spec, std::uint64_t seed, int seeds) {
  if (spec.input.kind == InputKind::gaussian) return {};
  return distinct(spec, seed, seeds, token_ids);
}

std::vector<std::vector<int>> distinct_label_ids(const StackSpec& spec, std::uint64_t seed, int seeds) {
  return distinct(spec, seed, seeds, label_ids);
}

}  // namespace periscope::stacks
