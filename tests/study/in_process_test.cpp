#include <fcntl.h>
#include <omp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <limits>
#include <map>

#include "experiments/engine/result/dataset.h"
#include "experiments/studies/studies.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"

namespace periscope::testing {
namespace {

/// Settings of a stack small enough for every study.
const std::vector<std::string> small_stack{"model.layers=2", "model.width=16",     "model.heads=2",    "model.vocab=40",
                                           "input.tokens=6", "model.mlp_width=24", "init.scheme=lecun"};

/// Additional settings, flags and file of a study.
struct Given {
  std::vector<std::string> settings = {};
  study::FlagValues flags = {};
  std::string file = {};
};

std::map<std::string, Given> given(const TemporaryFolder& folder) {
  const std::string list = folder.write("list.toml",
                                        "[[config]]\nname = \"small\"\nfile = \"small.toml\"\n"
                                        "[[theory]]\nname = \"strong W_down\"\nset = [\"init.down_factor=4\"]\n"
                                        "config = \"small\"\n");
  folder.write("small.toml", "");
  return {
      {"ladder", {{"ladder.widths=[16,32,48,64]", "ladder.seeds=8"}}},
      {"gradients depth", {{"gradients.layers=[2,3,4]"}}},
      {"gradients crossover", {{R"(model.placement=["post","pre","peri"])"}}},
      {"formats", {{R"(formats.format=["bf16"])", "theory.replicates=8"}}},
      {"power", {{}, {}, list}},
      {"compare", {{}, {{"stacks", {"pre", "peri"}}}}},
      {"verify", {{}, {{"cases", {"60"}}, {"starts", {"1"}}}}},
      {"certify", {{"input.kind=tokens"}}},
      {"probe", {{}, {{"checkpoint", {std::string(FIXTURES) + "/llama"}}, {"tokens", {"1,2,3"}}, {"draws", {"0"}}}}},
      {"train", {{"train.steps=2", "train.batch=1", R"(model.placement=["pre","peri"])"}, {{"corpus", {"synthetic"}}}}},
      {"first-steps",
       {{"train.steps=2", "train.batch=1", "first_steps.neurons=8", R"(model.placement=["pre","peri"])"},
        {{"corpus", {"synthetic"}}}}},
      {"reproduce", {{"train.steps=10"}, {{"quick", {}}, {"figure", {"4"}}, {"corpus", {"synthetic"}}}}}};
}

study::Request request_of(const study::Study& study, const std::map<std::string, Given>& given) {
  study::Request request{.known = sections(), .run = {{"seeds", {"4"}}}};
  // `probe` takes the model from a checkpoint, and `verify` generates random models.
  if (study.name != "probe" && study.name != "verify") request.settings = small_stack;
  if (const auto found = given.find(study.name); found != given.end()) {
    const Given& own = found->second;
    request.settings.insert(request.settings.end(), own.settings.begin(), own.settings.end());
    request.flags = own.flags;
    request.file = own.file;
  }
  if (study.name == "verify" || study.name == "probe") request.run.clear();
  return request;
}

/// State of the process: signal handlers, threads, working folder, umask.
struct ProcessState {
  std::array<void (*)(int), 4> handlers{};
  int threads = omp_get_max_threads();
  std::string folder = std::filesystem::current_path();
  mode_t mask = 0;

  ProcessState() {
    constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      struct sigaction action {};
      ::sigaction(numbers[i], nullptr, &action);
      handlers[i] = action.sa_handler;
    }
    mask = ::umask(0);
    ::umask(mask);
  }
  bool operator==(const ProcessState&) const = default;
};

/// Redirects standard output and standard error to a file during its lifetime.
class Redirected {
 public:
  explicit Redirected(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600)) {
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      saved_[i] = ::dup(static_cast<int>(i) + 1);
      ::dup2(file_, static_cast<int>(i) + 1);
    }
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;
  ~Redirected() {
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      ::dup2(saved_[i], static_cast<int>(i) + 1);
      ::close(saved_[i]);
    }
    ::close(file_);
  }
  [[nodiscard]] long bytes() const { return static_cast<long>(::lseek(file_, 0, SEEK_END)); }

 private:
  int file_;
  std::array<int, 2> saved_{};
};

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// Requests a stop from the n-th query on.
class Stopping final : public stacks::Progress {
 public:
  explicit Stopping(int from) : from_(from) {}
  [[nodiscard]] bool stop_requested() const override { return ++queries_ >= from_; }
  [[nodiscard]] int queries() const { return queries_; }

 private:
  int from_;
  mutable std::atomic<int> queries_ = 0;
};

TEST_CASE("every study runs in a caller's process without output, files or changes of process state" *
          doctest::test_suite("slow")) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  const std::map<std::string, Given> all_given = given(folder);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(elsewhere.path());
  omp_set_num_threads(2);
  for (const study::Study& study : studies()) {
    CAPTURE(study.name);
    const ProcessState before_run;
    long printed = 0;
    study::Outcome outcome;
    std::string failure;
    {
      const Redirected streams(folder.path("printed"));
      try {
        const study::Job job = study.resolve(request_of(study, all_given));
        stacks::Progress progress;
        outcome = job.run(progress);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      printed = streams.bytes();
    }
    CHECK(failure == "");
    CHECK(printed == 0);
    CHECK(before_run == ProcessState());
    CHECK(files_in(elsewhere.path()) == 0);
    CHECK(outcome.data.has_value() == (study.schema != nullptr));
    if (outcome.data) CHECK_FALSE(outcome.data->columns.empty());
    CHECK_FALSE(outcome.table.empty());
  }
  std::filesystem::current_path(before);
}

/// Returns whether a run stops without a result if every query from the n-th on requests a stop.
bool stops(const study::Study& study, const study::Request& request, int from) {
  Stopping progress(from);
  try {
    static_cast<void>(study.resolve(request).run(progress));
    return false;
  } catch (const stacks::Stopped&) {
    return true;
  }
}

TEST_CASE("every study stops on request, without a result" * doctest::test_suite("slow")) {
  const TemporaryFolder folder;
  const std::map<std::string, Given> all_given = given(folder);
  const Threads threads(1);
  for (const study::Study& study : studies()) {
    CAPTURE(study.name);
    const study::Request request = request_of(study, all_given);
    Stopping patient(std::numeric_limits<int>::max());
    static_cast<void>(study.resolve(request).run(patient));
    const int all = patient.queries();
    REQUIRE(all > 0);
    for (const int from : {1, std::min(2, all), all / 2 + 1})
      CHECK_MESSAGE(stops(study, request, from), from, " of ", all);
  }
}

}  // namespace
}  // namespace periscope::testing
