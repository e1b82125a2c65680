// Mutates files at random, and parses and reads every mutant.
// usage: mutate_files COUNT SEED FILE…
#include <chrono>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/checkpoint/mutate.h"
#include "tests/support/temporary_folder.h"

int main(int argc, char** argv) {
  using namespace periscope::testing;
  if (argc < 4) {
    std::cerr << "usage: mutate_files COUNT SEED FILE...\n";
    return 2;
  }
  const long count = std::stol(argv[1]);
  std::mt19937_64 random(std::stoull(argv[2]));
  std::vector<std::string> originals;
  for (int i = 3; i < argc; ++i) originals.push_back(bytes_of_file(argv[i]));

  std::map<ReadOutcome, long> endings;
  std::chrono::duration<double> slowest{0};
  for (long i = 0; i < count; ++i) {
    const std::string mutant = mutated(originals[static_cast<std::size_t>(i) % originals.size()], random);
    const auto start = std::chrono::steady_clock::now();
    ++endings[read_everything(mutant)];
    slowest = std::max<std::chrono::duration<double>>(slowest, std::chrono::steady_clock::now() - start);
  }
  std::cout << count << " mutants of " << originals.size() << " files: " << endings[ReadOutcome::rejected]
            << " rejected, " << endings[ReadOutcome::rejected_when_read] << " opened and a tensor rejected, "
            << endings[ReadOutcome::read] << " read; the slowest took " << slowest.count() << " s\n";
  return 0;
}
