// LD_PRELOAD library that raises the signal SIGNAL_AT_LOAD during library initialization, before static objects and
// main.
#include <csignal>
#include <cstdlib>

namespace {
__attribute__((constructor)) void send_signal() {
  if (const char* number = std::getenv("SIGNAL_AT_LOAD"); number != nullptr) std::raise(std::atoi(number));
}
}  // namespace
