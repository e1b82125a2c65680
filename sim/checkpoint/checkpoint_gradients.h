#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/checkpoint/parameter_map.h"
#include "sim/core/backend.h"
#include "sim/model/hooks.h"

namespace periscope {

/// Converts gradients of a stack's parameters to gradients of a checkpoint's tensors in their stored layout: transposes
/// them, joins parts of one tensor, and adds up the uses of a tied matrix. Each tensor is passed to the sink once,
/// after its last use. Parameters that are not stored (implicit gains of 1) are dropped.
class CheckpointGradients final : public GradientRecorder {
 public:
  /// `gradient` is row-major in the stored shape.
  using Sink = std::function<void(const std::string& tensor, const std::vector<double>& gradient)>;

  CheckpointGradients(const Backend& backend, const ParameterMap& map, const ModelSpec& model, Sink sink);

  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override;

  /// Returns the tensors for which gradients are missing; empty after a backward pass from logits to token ids.
  [[nodiscard]] std::vector<std::string> incomplete() const;

 private:
  struct Pending {
    std::vector<ParameterMap::Use> uses;
    std::size_t missing;
    std::vector<std::int64_t> shape;
    std::vector<double> gradient{};  ///< empty before the first use
  };

  const Backend& backend_;
  const ParameterMap& map_;
  Sink sink_;
  std::map<std::string, Pending> pending_;
};

}  // namespace periscope
