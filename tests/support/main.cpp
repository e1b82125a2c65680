#define DOCTEST_CONFIG_IMPLEMENT
#include <omp.h>

#include <cstdlib>

#include "tests/support/doctest.h"

int main(int argc, char** argv) {
  // A fixed seed makes RapidCheck reproducible. RC_PARAMS in the environment takes precedence.
  constexpr int overwrite = 0;
  setenv("RC_PARAMS", "seed=20240229 max_success=100", overwrite);
  // One thread by default: synchronizing threads on tiny tensors is slow on a busy machine.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(1);
  doctest::Context context(argc, argv);
  return context.run();
}
