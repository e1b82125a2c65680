#include "experiments/app/arguments.h"

#include <utility>

namespace periscope::app {
namespace {

std::vector<std::string>& storage() {
  static std::vector<std::string> words;
  return words;
}

}  // namespace

void set_argv(std::vector<std::string> argv) { storage() = std::move(argv); }

const std::vector<std::string>& argv() { return storage(); }

}  // namespace periscope::app
