#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/emulated/watch.h"
#include "sim/model/context.h"
#include "sim/spec/signal.h"

namespace periscope::certify {

/// Keeps what an emulated run tells about numbers inside its ops.
class InnerLog final : public Watch {
 public:
  struct Record {
    Tensor parameter;  ///< the op's matrix or gain; of ops that have none, that of the op before
    Inner inner;
    std::vector<double> magnitudes;
  };

  void on_inner(const Tensor* parameter, Inner inner, std::span<const double> magnitudes) override {
    if (parameter != nullptr) last_ = *parameter;
    records_.push_back({last_, inner, {magnitudes.begin(), magnitudes.end()}});
  }
  /// Returns what ops reported since the last call.
  std::vector<Record> take() { return std::exchange(records_, {}); }

 private:
  Tensor last_;
  std::vector<Record> records_;
};

/// The largest magnitude of every feature of every signal that a certificate bounds, over all tokens of what was run.
/// Keys and shapes are those of the certificate's bounds.
class SignalMaxima {
 public:
  using Key = std::pair<Signal, int>;

  /// Runs real-valued input [N, D] (before the embedding norm), adds what is seen. Of an emulated run `log` is what the
  /// context's backend tells of numbers inside its ops: they are signals too.
  void add(const StackContext& context, const Tensor& input, InnerLog* log = nullptr);
  /// Runs token ids, adds what is seen.
  void add(const StackContext& context, std::span<const int> ids, InnerLog* log = nullptr);

  /// Null if it was not seen.
  [[nodiscard]] const std::vector<double>* find(Signal signal, int sublayer) const;
  /// Largest entry, NaN if it was not seen.
  [[nodiscard]] double largest(Signal signal, int sublayer) const;
  /// Signals seen.
  [[nodiscard]] std::size_t size() const { return maxima_.size(); }

  /// Raises the maxima of a signal to magnitudes that are seen one by one, or (`one`) all as one.
  void raise_to(Signal signal, int sublayer, std::span<const double> magnitudes, bool one = false);

 private:
  std::map<Key, std::vector<double>> maxima_;
};

}  // namespace periscope::certify
