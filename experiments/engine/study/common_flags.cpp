#include "experiments/engine/study/common_flags.h"

namespace periscope::study {

std::vector<std::string> keys_of(const CommonFlags& flags) {
  std::vector<std::string> keys;
  if (flags.seed) keys.emplace_back("run.seed");
  if (flags.seeds) keys.emplace_back("run.seeds");
  if (flags.threads) keys.emplace_back("run.threads");
  if (flags.device) keys.emplace_back("run.device");
  if (flags.dtype) keys.emplace_back("run.dtype");
  if (flags.out) keys.emplace_back("run.out");
  return keys;
}

}  // namespace periscope::study
