#pragma once

#include <array>
#include <map>
#include <vector>

#include "sim/model/context.h"
#include "sim/model/hooks.h"
#include "sim/spec/profile.h"

namespace periscope {

inline constexpr int top_count = 100;
inline constexpr int angular_tokens = 32;
/// Deeper stacks get no angular distances: their number is the square of the depth.
inline constexpr std::size_t angular_depths = 513;

/// The largest magnitudes of one site, per sublayer in descending order.
using TopMagnitudes = std::map<Signal, std::vector<std::vector<double>>>;

/// What one forward pass showed: every statistic at every site, no standard errors.
struct Reading {
  Profile profile;
  TopMagnitudes top;
  int diverged_at = -1;  ///< first sublayer whose x_out holds a value that is not finite, or −1
};

/// Records one forward pass. The estimators are those of Statistic; angular distances use at most
/// `angular_tokens` tokens, evenly spaced, so that memory stays bounded by depth · 32 · D.
class Probe final : public SignalRecorder {
 public:
  explicit Probe(const StackContext& context);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// What was seen. Call once, after the pass.
  Reading take();

 private:
  /// What is read off one signal, whatever its site.
  struct SignalReading {
    Tensor signal;
    double second_moment, variance, mean, kurtosis, maximum, token_cosine;
    std::vector<double> top;
  };

  const SignalReading& read(const Tensor& x);
  void choose_tokens(Tensor::Index tokens);
  void record(int index, Signal site, const Tensor& x);
  void record_branch(int sublayer, const Tensor& branch);
  void keep_for_angles(const Tensor& x);
  void fill_angles();
  Curve& curve(Statistic statistic, Signal site);

  const StackContext& context_;
  Reading reading_;
  std::array<SignalReading, 3> recent_;  // without a norm between them two sites are one signal: read it once
  std::size_t oldest_ = 0;
  Tensor stream_;  // x_in of the current sublayer
  std::vector<int> kept_tokens_;
  std::vector<Tensor> kept_;  // the stream at every depth, kept tokens only
};

}  // namespace periscope
