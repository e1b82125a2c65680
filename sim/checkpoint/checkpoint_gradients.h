#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/checkpoint/parameter_map.h"
#include "sim/core/backend.h"
#include "sim/model/hooks.h"

namespace periscope {

/// Turns the gradients of a stack's parameters into gradients of a checkpoint's tensors, in the layout that is stored:
/// transposed back, parts of one tensor put together, the uses of a tied matrix added. A tensor is handed over, once,
/// when the last of its uses has come; until then it is kept, in double. What is not stored (a gain of 1) is dropped.
class CheckpointGradients final : public GradientRecorder {
 public:
  /// Gets the tensor's name and its gradient, row-major in the stored shape.
  using Sink = std::function<void(const std::string& tensor, const std::vector<double>& gradient)>;

  CheckpointGradients(const Backend& backend, const ParameterMap& map, const ModelSpec& model, Sink sink);

  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override;

  /// Tensors that wait for a use: none after a whole backward pass from logits to token ids.
  [[nodiscard]] std::vector<std::string> waiting() const;

 private:
  struct Pending {
    std::size_t uses;  ///< still to come
    std::int64_t rows, cols;
    std::vector<double> gradient{};  ///< empty before the first use
  };
  void add(const StoredPart& part, const Tensor& gradient);

  const Backend& backend_;
  const ParameterMap& map_;
  Sink sink_;
  std::map<std::string, Pending> pending_;
};

}  // namespace periscope
