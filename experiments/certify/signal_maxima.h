#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "experiments/certify/inner_log.h"
#include "sim/model/context.h"
#include "theory/certificate.h"

namespace periscope {

/// The largest magnitude of every feature of every signal that a certificate bounds, over all tokens of what was run.
/// Keys and shapes are those of the certificate's bounds.
class SignalMaxima {
 public:
  using Key = std::pair<Signal, int>;

  /// Runs real-valued input [N, D] (before the embedding norm), adds what is seen. Of an emulated run `log` is what the
  /// context's backend tells of numbers inside its ops: they are signals too, and scores are those that it computed.
  void add(const StackContext& context, const Tensor& input, InnerLog* log = nullptr);
  /// Runs token ids, adds what is seen.
  void add(const StackContext& context, std::span<const int> ids, InnerLog* log = nullptr);

  /// Null if it was not seen.
  [[nodiscard]] const std::vector<double>* find(Signal signal, int sublayer) const;
  /// Largest entry, NaN if it was not seen.
  [[nodiscard]] double largest(Signal signal, int sublayer) const;
  /// Signals seen.
  [[nodiscard]] std::size_t size() const { return maxima_.size(); }

 private:
  void note(const StackContext& context, Signal signal, int sublayer, const Tensor& x);
  void run(const StackContext& context, const Tensor& input, InnerLog* log);
  /// What was told since the last call, as signals of `sublayer`.
  void note_inner(const StackContext& context, int sublayer, InnerLog* log);
  /// Largest of magnitudes that are seen one by one, or (`one`) of all of them.
  void raise_to(Signal signal, int sublayer, std::span<const double> magnitudes, bool one);

  std::map<Key, std::vector<double>> maxima_;
};

/// Every query head's largest |score| that enters the softmax, of q [N, H·e] and k [N, kv_heads·e] as heads read them.
std::vector<double> largest_scores(const StackContext& context, int layer, const Tensor& q, const Tensor& k);

}  // namespace periscope
