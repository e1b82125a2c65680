#include "experiments/common/tensor_dump.h"

#include <fmt/format.h>

namespace periscope {

void add_stream_entries(const ModelSpec& model, std::int64_t tokens, const std::string& prefix,
                        std::vector<SafetensorsEntry>& entries) {
  for (int i = 0; i <= model.sublayers(); ++i) {
    entries.push_back({fmt::format("{}stream.{}", prefix, i), SafetensorsType::f64, {tokens, model.width}});
  }
}

void StreamDump::on_input(const Tensor& x) { file_.put("stream.0", x); }

void StreamDump::on_site(int sublayer, Signal site, const Tensor& x) {
  if (site == Signal::x_out) file_.put(fmt::format("stream.{}", sublayer + 1), x);
}

void StreamGradientDump::on_input(const Tensor& dx) { file_.put("grad.stream.0", dx); }

void StreamGradientDump::on_site(int sublayer, Signal site, const Tensor& dx) {
  if (site == Signal::x_out) file_.put(fmt::format("grad.stream.{}", sublayer + 1), dx);
}

}  // namespace periscope
