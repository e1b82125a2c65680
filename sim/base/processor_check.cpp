#include <unistd.h>

#include "sim/base/processor.h"

/// Ends the program with a message, instead of SIGILL, if it was compiled for instructions that this processor lacks.
/// Runs before the initializers of the program's static objects, which have the default priority and may use these
/// instructions. Initializers of shared libraries run earlier, but are compiled for the baseline.
/// PERISCOPE_NEEDED_LEVEL is the required level of processor_level(), PERISCOPE_EXIT_CODE the exit code.
#define PERISCOPE_TEXT_OF(x) #x
#define PERISCOPE_TEXT(x) PERISCOPE_TEXT_OF(x)

namespace {

constexpr char rejection[] =
    "periscope: this processor or its operating system does not support x86-64-v" PERISCOPE_TEXT(
        PERISCOPE_NEEDED_LEVEL) " (v3: AVX2, BMI2, F16C, FMA, LZCNT, MOVBE), for which the program was compiled; "
                                "rebuild with cmake -DPERISCOPE_NATIVE=ON\n";

__attribute__((constructor(101))) void check_processor() {
  if (periscope::processor_level() >= PERISCOPE_NEEDED_LEVEL) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, rejection, sizeof rejection - 1);
  _exit(PERISCOPE_EXIT_CODE);
}

}  // namespace
