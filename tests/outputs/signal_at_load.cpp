// A library for LD_PRELOAD: sends the process the signal SIGNAL_AT_LOAD while its libraries are initialised, before its
// own static objects and main.
#include <csignal>
#include <cstdlib>

namespace {
__attribute__((constructor)) void send_signal() {
  if (const char* number = std::getenv("SIGNAL_AT_LOAD"); number != nullptr) std::raise(std::atoi(number));
}
}  // namespace
