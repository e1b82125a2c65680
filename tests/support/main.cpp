#define DOCTEST_CONFIG_IMPLEMENT
#include <omp.h>

#include <cstdlib>

#include "tests/support/doctest.h"

int main(int argc, char** argv) {
  // RapidCheck would take a new seed for every run: tests are to pass or fail for good. RC_PARAMS in the
  // environment wins, for those who go looking for counterexamples.
  constexpr int keep_what_is_set = 0;
  setenv("RC_PARAMS", "seed=20240229 max_success=100", keep_what_is_set);
  // Threads that wait for each other over tiny tensors are a hundred times slower on a busy machine. Tests
  // of the number of threads set it themselves.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(1);
  doctest::Context context(argc, argv);
  return context.run();
}
