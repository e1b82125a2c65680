#include "experiments/common/tensor_dump.h"

#include <fmt/format.h>

namespace periscope {

void add_stream_entries(const ModelSpec& model, std::int64_t tokens, const std::string& prefix,
                        std::vector<SafetensorsEntry>& entries) {
  for (int i = 0; i <= model.sublayers(); ++i) {
    entries.push_back({fmt::format("{}stream.{}", prefix, i), SafetensorsType::f64, {tokens, model.width}});
  }
}

void StreamDump::on_signal(const Emission& at, const Tensor& x) {
  if (at.signal != Signal::x_out) return;
  file_.put(fmt::format("{}stream.{}", at.pass == Pass::backward ? "grad." : "", at.sublayer + 1), x);
}

}  // namespace periscope
