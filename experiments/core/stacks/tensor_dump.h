#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/core/backend.h"
#include "sim/model/hooks.h"

namespace periscope::stacks {

/// Writes a safetensors file's tensors as they arise, all in f64 but ids.
class TensorFile {
 public:
  /// `file` is the caller's to commit.
  TensorFile(const Backend& ops, OutputFile& file, const std::vector<SafetensorsEntry>& entries)
      : ops_(ops), writer_(file, entries) {}
  void put(const std::string& name, const Tensor& x) { writer_.put(name, ops_.to_host(x)); }
  void put(const std::string& name, const std::vector<double>& x) { writer_.put(name, x); }
  void put(const std::string& name, double x) { writer_.put(name, std::span<const double>(&x, 1)); }
  void put(const std::string& name, const std::vector<std::int64_t>& ids) { writer_.put(name, ids); }
  void put(const std::string& name, const std::vector<int>& ids) {
    put(name, std::vector<std::int64_t>(ids.begin(), ids.end()));
  }
  void close() { writer_.close(); }

 private:
  const Backend& ops_;
  SafetensorsWriter writer_;
};

/// Adds stream.0 … stream.2L, each [tokens, D], with a prefix: "" or "grad.".
inline void add_stream_entries(const ModelSpec& model, std::int64_t tokens, const std::string& prefix,
                               std::vector<SafetensorsEntry>& entries) {
  for (int i = 0; i <= model.sublayers(); ++i) {
    entries.push_back({fmt::format("{}stream.{}", prefix, i), SafetensorsType::f64, {tokens, model.width}});
  }
}

/// Writes stream.0 … stream.2L of a forward pass and grad.stream.0 … grad.stream.2L of a backward pass.
class StreamDump final : public SignalRecorder {
 public:
  explicit StreamDump(TensorFile& file) : file_(file) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal != Signal::x_out) return;
    file_.put(fmt::format("{}stream.{}", at.pass == Pass::backward ? "grad." : "", at.sublayer + 1), x);
  }

 private:
  TensorFile& file_;
};

}  // namespace periscope::stacks
