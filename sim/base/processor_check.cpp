#include <unistd.h>

#include "sim/base/processor.h"

/// Ends a program that is compiled for instructions which this processor does not have, with a sentence instead of
/// SIGILL. Runs before the initialisers of the program's static objects, which may use such instructions: they have the
/// default priority, and those of shared libraries are compiled for any processor.
/// PERISCOPE_NEEDED_LEVEL is the level, PERISCOPE_EXIT_CODE the exit code.
#define PERISCOPE_TEXT_OF(x) #x
#define PERISCOPE_TEXT(x) PERISCOPE_TEXT_OF(x)

namespace {

constexpr char rejection[] =
    "periscope: this processor or its operating system lacks instructions of x86-64-v" PERISCOPE_TEXT(
        PERISCOPE_NEEDED_LEVEL) " (v3: AVX2, BMI2, F16C, FMA, LZCNT, MOVBE), for which the program is compiled; cmake "
                                "-DPERISCOPE_NATIVE=ON compiles it for this machine\n";

__attribute__((constructor(101))) void check_processor() {
  if (periscope::processor_level() >= PERISCOPE_NEEDED_LEVEL) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, rejection, sizeof rejection - 1);
  _exit(PERISCOPE_EXIT_CODE);
}

}  // namespace
