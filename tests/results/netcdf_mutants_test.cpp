// Mutants of a result file. The NetCDF library crashes or hangs on some of them; this program must not.

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "experiments/app/tools/export_csv.h"
#include "sim/base/error.h"
#include "tests/results/netcdf_files.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using namespace std::string_view_literals;

/// With what the parts of an HDF5 file begin that say how the rest is to be read.
constexpr std::array parts{"\x89HDF"sv, "OHDR"sv, "OCHK"sv, "FRHP"sv, "FHDB"sv, "FHIB"sv, "BTHD"sv, "BTIN"sv,
                           "BTLF"sv,    "TREE"sv, "SNOD"sv, "HEAP"sv, "GCOL"sv, "FSHD"sv, "FSSE"sv};

class Mutator {
 public:
  Mutator(std::string bytes, std::uint64_t seed) : original_(std::move(bytes)), random_(seed) {
    for (const std::string_view part : parts) {
      for (std::size_t at = original_.find(part); at != std::string::npos; at = original_.find(part, at + 1)) {
        parts_.push_back(at);
      }
    }
  }

  std::string mutant() {
    std::string bytes = original_;
    for (std::size_t i = 0, changes = 1 + below(4); i < changes && bytes.size() > 16; ++i) change(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  /// Two thirds of the places are within a header of the format.
  std::size_t place(const std::string& bytes, std::size_t room) {
    const std::size_t most = bytes.size() - room;
    if (below(3) == 0) return below(most);
    return std::min(most - 1, parts_[below(parts_.size())] + 4 + below(120));
  }

  void change(std::string& bytes) {
    constexpr std::array<std::uint64_t, 8> hostile{0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 1ULL << 40U, ~0ULL};
    switch (below(8)) {
      case 0:
      case 1: bytes[place(bytes, 1)] ^= static_cast<char>(1U << below(8)); break;
      case 2: bytes[place(bytes, 1)] = static_cast<char>(below(256)); break;
      case 3: {
        const std::size_t width = std::size_t{1} << below(4);
        std::memcpy(&bytes[place(bytes, 8)], &hostile[below(hostile.size())], width);
        break;
      }
      case 4: {
        const std::size_t at = place(bytes, 8);
        std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(at) + 8);
        break;
      }
      case 5: {
        const std::size_t from = place(bytes, 16);
        bytes.replace(place(bytes, 16), 16, bytes.substr(from, 16));
        break;
      }
      case 6: bytes.resize(below(4) == 0 ? below(bytes.size()) : bytes.size() - below(64)); break;
      default: bytes.erase(place(bytes, 8), 1 + below(8)); break;
    }
  }

  std::string original_;
  std::mt19937_64 random_;
  std::vector<std::size_t> parts_;
};

}  // namespace

// PERISCOPE_MUTANTS=100000 takes more of them than a test has time for.
TEST_CASE("mutated NetCDF files are read or refused, none crashes or hangs") {
  const char* asked = std::getenv("PERISCOPE_MUTANTS");
  const int count = asked == nullptr ? 2000 : std::atoi(asked);
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("a.nc");
  app::write_netcdf(path, testing::small_result());
  Mutator mutator(testing::bytes_of_file(path), 1);
  std::map<std::string, int> endings;
  std::chrono::duration<double> slowest{0};
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    const std::string mutant = mutator.mutant();
    folder.write("a.nc", mutant);
    const auto start = std::chrono::steady_clock::now();
    std::string ending = "read";
    try {
      const std::string csv = app::csv_of(path);
      CHECK(csv.starts_with("variable,"));
    } catch (const InputError& error) {
      const std::string message = error.what();
      CHECK_MESSAGE(message.starts_with(path + ": "), message);
      CHECK_MESSAGE(message.find('\n') == std::string::npos, message);
      const std::size_t library = message.find("could not read it: ");
      ending = library == std::string::npos ? "refused" : message.substr(library + 19);
    }
    ++endings[ending];
    slowest = std::max<std::chrono::duration<double>>(slowest, std::chrono::steady_clock::now() - start);
  }
  for (const auto& [ending, number] : endings) MESSAGE(number << " of " << count << ": " << ending);
  MESSAGE("the slowest took " << slowest.count() << " s");
  CHECK(slowest.count() < 100.0);
  CHECK(endings["refused"] > count / 10);
  CHECK(endings["read"] > count / 100);
}

}  // namespace periscope
