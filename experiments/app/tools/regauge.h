#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/scaled_checkpoint.h"
#include "sim/model/scaled_weights.h"
#include "sim/numerics/number_format.h"

namespace periscope::app {

/// What `regauge` is asked for: one of `factor` and `format`.
struct RegaugeRequest {
  std::string folder;
  std::vector<std::string> ignore_keys;  ///< of its config.json and of the written one
  std::string out;
  std::optional<double> factor = {};        ///< by which the stream is divided
  std::optional<NumberFormat> format = {};  ///< that the stream is to fit
  bool overwrite = false;
};

/// The certificate's say on a stream.
struct CertifiedStream {
  double largest;                 ///< bound of |x|, of what is added to x, and of the embedding
  bool certified;                 ///< for a run in the format; without one: true
  std::string first_overflow;     ///< "hidden of sublayer 3": what overflows first where it is not certified
  std::string large_weight = {};  ///< the weight beyond the format, if there is one
};

/// A checkpoint and the one that was made of it, whose stream is `factor` times smaller.
struct Regauged {
  double factor;  ///< c
  ScaleRecipe recipe;
  RunArithmetic arithmetic;
  CertifiedStream before, after;
  double eps_before, eps_after;
  std::string eps_reason;  ///< why ε is what it was; "" where it was divided by c²
  int tokens;              ///< random ones, on which both were run in f64
  double difference;       ///< max |Δ logit| / max |logit|
  double without_eps;      ///< the same with ε = 0 in both
  ScaledTensors written;
  std::vector<std::string> ignored_keys;  ///< of config.json
};

/// Writes the checkpoint of request.folder into request.out with another size of its stream and the same function,
/// reads what was written, certifies it and runs it beside the original. Throws ConfigError for a placement where the
/// stream's size is no gauge, for a stream without a bound where a format is asked for, and as write_scaled does.
Regauged regauge(const RegaugeRequest& request);

nlohmann::ordered_json regauge_json(const Regauged& done);
std::string regauge_text(const Regauged& done);

}  // namespace periscope::app
