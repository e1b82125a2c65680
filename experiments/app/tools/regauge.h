#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/numerics/number_format.h"

namespace periscope::app {

/// What `regauge` is asked for: one of `factor` and `format`.
struct RegaugeRequest {
  std::string checkpoint;                ///< folder
  std::vector<std::string> ignore_keys;  ///< of its config.json and of the written one
  std::optional<double> factor;          ///< by which the stream is divided
  std::optional<NumberFormat> format;    ///< that the stream is to fit
  std::string out;
  bool overwrite = false;
};

/// Writes the checkpoint of request.checkpoint into request.out with another size of its stream and the same function,
/// reads what was written, certifies it and runs it beside the original. Returns what was done, as --json has it.
/// Throws ConfigError for a placement where the stream's size is no gauge, for a stream without a bound where a format
/// is asked for, and as write_scaled does.
nlohmann::ordered_json regauge(const RegaugeRequest& request);

/// Returns the answer of `regauge` for people.
std::string regauge_text(const nlohmann::ordered_json& done);

}  // namespace periscope::app
