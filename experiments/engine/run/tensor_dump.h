#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/core/backend.h"
#include "sim/model/hooks.h"

namespace periscope::stacks {

/// Writes tensors to a safetensors file: ids as i64, everything else as f64.
class TensorFile : public SafetensorsWriter {
 public:
  /// The caller commits `file`.
  TensorFile(const Backend& ops, OutputFile& file, const std::vector<SafetensorsEntry>& entries)
      : SafetensorsWriter(file, entries), ops_(ops) {}
  using SafetensorsWriter::put;
  void put(const std::string& name, const Tensor& x) { put(name, ops_.to_host(x)); }
  void put(const std::string& name, double x) { put(name, std::span<const double>(&x, 1)); }
  void put(const std::string& name, const std::vector<int>& ids) {
    put(name, std::vector<std::int64_t>(ids.begin(), ids.end()));
  }

 private:
  const Backend& ops_;
};

/// Returns the tensors of a dump of a pass over T tokens: input [T, D], labels [T], logits, and the stream at the input
/// and after every step, stream.0 …, each [T, D], or [T, n, D] for n streams; with `backward` also grad.stream.0 … .
inline std::vector<SafetensorsEntry> pass_entries(const ModelSpec& model, std::int64_t tokens, bool backward) {
  const std::int64_t outputs = model.unembedding ? model.vocab : model.width;
  std::vector<SafetensorsEntry> entries{{"input", SafetensorsType::f64, {tokens, model.width}},
                                        {"labels", SafetensorsType::i64, {tokens}},
                                        {"logits", SafetensorsType::f64, {tokens, outputs}}};
  std::vector<std::int64_t> shape{tokens, model.width};
  if (const int parts = model.ends().parts_of_stream(); parts > 1) shape.insert(shape.begin() + 1, parts);
  for (int i = 0; i <= model.steps(); ++i) {
    entries.push_back({fmt::format("stream.{}", i), SafetensorsType::f64, shape});
    if (backward) entries.push_back({fmt::format("grad.stream.{}", i), SafetensorsType::f64, shape});
  }
  return entries;
}

/// Writes stream.0 … of a forward pass and grad.stream.0 … of a backward pass.
class StreamDump final : public SignalRecorder {
 public:
  StreamDump(const Backend& ops, const ModelSpec& model, TensorFile& file)
      : ops_(ops), parts_(static_cast<std::size_t>(model.ends().parts_of_stream())), file_(file) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal != Signal::x_out) return;
    const std::string name = fmt::format("{}stream.{}", at.pass == Pass::backward ? "grad." : "", at.sublayer + 1);
    if (parts_ == 1) return file_.put(name, x);
    // All parts of a stream are emitted, in any order, before the next stream.
    const auto width = static_cast<std::size_t>(x.cols());
    const std::vector<double> part = ops_.to_host(x);
    all_.resize(part.size() * parts_);
    for (std::size_t i = 0; i < part.size(); ++i) {
      all_[(i / width * parts_ + static_cast<std::size_t>(at.part)) * width + i % width] = part[i];
    }
    if (++seen_ < parts_) return;
    seen_ = 0;
    file_.put(name, all_);
  }

 private:
  const Backend& ops_;
  std::size_t parts_;
  std::size_t seen_ = 0;
  std::vector<double> all_;
  TensorFile& file_;
};

}  // namespace periscope::stacks
