#include "experiments/app/tools/generate.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "experiments/app/standard_streams.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/model/key_value_cache.h"

namespace periscope::app {

std::vector<int> generate_greedily(const StackContext& c, std::vector<int> ids, int count,
                                   const std::function<void(int)>& on_token) {
  KeyValueCache cache(c.model.layers, static_cast<Tensor::Index>(ids.size()) + count - 1);  // the last is not read
  for (int i = 0; i < count; ++i) {
    const std::span<const int> unread = std::span(ids).subspan(static_cast<std::size_t>(cache.tokens()));
    const std::vector<double> logits = c.ops.to_host(next_logits(c, cache, unread));
    if (std::ranges::any_of(logits, [](double z) { return std::isnan(z); })) {
      throw Error(ExitCode::runtime_failure, "generate: the model's logits are not numbers: no token is the likeliest");
    }
    ids.push_back(static_cast<int>(std::ranges::max_element(logits) - logits.begin()));
    on_token(ids.back());
  }
  return ids;
}

namespace {

/// Bytes at the end of `text` that begin a character of UTF-8 whose rest may still come.
std::size_t unfinished(const std::string& text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0U) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

void GrowingText::print(std::size_t end) {
  if (end <= printed_) return;
  const std::string raw = whole_.substr(printed_, end - printed_);
  print_result(terminal_ ? printable(raw, Layout::lines) : raw);
  printed_ = end;
}

void GrowingText::show(const std::string& whole) {
  begun_ = true;
  whole_ = whole;
  print(whole_.size() - (terminal_ ? unfinished(whole_) : 0));
}

void GrowingText::end() {
  if (!std::exchange(begun_, false)) return;
  print(whole_.size());
  print_result("\n");
}

}  // namespace periscope::app
