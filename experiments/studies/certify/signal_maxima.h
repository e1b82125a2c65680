#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/model/context.h"
#include "sim/model/hooks.h"
#include "sim/spec/signal.h"

namespace periscope::certify {

/// The largest magnitude of every feature of every signal that a certificate bounds, over all tokens of all runs. Keys
/// and shapes are those of the certificate's bounds.
class SignalMaxima {
 public:
  /// Runs real-valued input [N, D] (before the embedding norm), or token ids.
  void add(const StackContext& context, const Tensor& input, Hooks hooks = {});
  void add(const StackContext& context, std::span<const int> ids, Hooks hooks = {});
  /// Raises the maxima of a signal. NaN counts as infinite.
  void raise_to(Signal signal, int sublayer, std::span<const double> magnitudes);

  /// Null if the signal did not arise.
  [[nodiscard]] const std::vector<double>* find(Signal signal, int sublayer) const;
  /// Largest entry; NaN if the signal did not arise.
  [[nodiscard]] double largest(Signal signal, int sublayer) const;
  [[nodiscard]] std::size_t size() const { return maxima_.size(); }

 private:
  std::map<std::pair<Signal, int>, std::vector<double>> maxima_;
};

}  // namespace periscope::certify
