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
#include <span>

#include "experiments/engine/result/dataset.h"
#include "experiments/studies/studies.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"

/// A study is a value that any program can call: what that program has of its own must be as it was.
namespace periscope::testing {
namespace {

/// Small enough for every study.
const std::vector<std::string> small_stack{"model.layers=2", "model.width=16",     "model.heads=2",    "model.vocab=40",
                                           "input.tokens=6", "model.mlp_width=24", "init.scheme=lecun"};

/// What a study has to be given besides, by name.
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
      {"verify", {{}, {{"cases", {"60"}}}}},
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
  // A checkpoint answers the keys of its model itself, and `verify` draws its own.
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

/// What a process has once, as it is now.
struct OfTheProcess {
  std::array<void (*)(int), 4> handlers{};
  int threads = omp_get_max_threads();
  std::string folder = std::filesystem::current_path();
  mode_t mask = 0;

  OfTheProcess() {
    constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      struct sigaction action {};
      ::sigaction(numbers[i], nullptr, &action);
      handlers[i] = action.sa_handler;
    }
    mask = ::umask(0);
    ::umask(mask);
  }
  bool operator==(const OfTheProcess&) const = default;
};

/// While this lives, standard output and standard error go to a file.
class Overheard {
 public:
  explicit Overheard(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600)) {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      kept_[i] = ::dup(static_cast<int>(i) + 1);
      ::dup2(file_, static_cast<int>(i) + 1);
    }
  }
  Overheard(const Overheard&) = delete;
  Overheard& operator=(const Overheard&) = delete;
  ~Overheard() {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      ::dup2(kept_[i], static_cast<int>(i) + 1);
      ::close(kept_[i]);
    }
    ::close(file_);
  }
  [[nodiscard]] long bytes() const { return static_cast<long>(::lseek(file_, 0, SEEK_END)); }

 private:
  int file_;
  std::array<int, 2> kept_{};
};

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// Asks to stop from the n-th time on that it is asked.
class Stopping final : public stacks::Progress {
 public:
  explicit Stopping(int from) : from_(from) {}
  [[nodiscard]] bool stop_requested() const override { return ++asked_ >= from_; }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  int from_;
  mutable std::atomic<int> asked_ = 0;
};

TEST_CASE("every study runs in a caller's process: it prints nothing, leaves no file, and changes no setting") {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  const std::map<std::string, Given> all_given = given(folder);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(elsewhere.path());
  omp_set_num_threads(2);
  for (const study::Study& study : studies()) {
    CAPTURE(study.name);
    const OfTheProcess kept;
    long printed = 0;
    study::Outcome outcome;
    std::string failure;
    {
      const Overheard streams(folder.path("printed"));
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
    CHECK(kept == OfTheProcess());
    CHECK(files_in(elsewhere.path()) == 0);
    CHECK(outcome.data.has_value() == (study.schema != nullptr));
    if (outcome.data) CHECK_FALSE(outcome.data->columns.empty());
    CHECK_FALSE(outcome.table.empty());
  }
  std::filesystem::current_path(before);
}

/// True if a run of that request, which is asked to stop from the n-th question on, stops without a result.
bool stops(const study::Study& study, const study::Request& request, int from) {
  Stopping progress(from);
  try {
    static_cast<void>(study.resolve(request).run(progress));
    return false;
  } catch (const stacks::Stopped&) {
    return true;
  }
}

TEST_CASE("a study that is asked to stop says so, and gives no result") {
  const TemporaryFolder folder;
  const std::map<std::string, Given> all_given = given(folder);
  const Threads threads(1);
  for (const study::Study& study : studies()) {
    CAPTURE(study.name);
    const study::Request request = request_of(study, all_given);
    Stopping patient(std::numeric_limits<int>::max());
    static_cast<void>(study.resolve(request).run(patient));
    const int all = patient.asked();
    REQUIRE(all > 0);
    for (const int from : {1, std::min(2, all), all / 2 + 1})
      CHECK_MESSAGE(stops(study, request, from), from, " of ", all);
  }
}

TEST_CASE("a run with a master seed of its own stops in its midst") {
  const TemporaryFolder folder;
  std::map<std::string, Given> all_given = given(folder);
  Given& power = all_given.at("power");
  power.flags = {{"master-seeds", {"1"}}};
  power.file =
      folder.write("master.toml", "[[config]]\nname = \"small\"\nfile = \"small.toml\"\nmaster_seeds = true\n");
  const Threads threads(1);
  const std::span<const study::Study> all = studies();
  const auto study = std::ranges::find(all, "power", &study::Study::name);
  REQUIRE(study != all.end());
  const study::Request request = request_of(*study, all_given);
  CHECK(stops(*study, request, 2));
  CHECK(stops(*study, request, 3));
}

TEST_CASE("what can be seen to be impossible without computing is refused before anything runs") {
  const TemporaryFolder folder;
  const std::map<std::string, Given> all_given = given(folder);
  struct Impossible {
    std::vector<std::string> settings;
    std::string reason;  ///< of the message
  };
  const std::map<std::string, Impossible> impossible{
      {"ladder", {{"init.scheme=normal"}, "has no limit"}},
      {"gradients depth", {{"gradients.layers=[4,2,1]"}, "rising depths"}},
      {"gradients attenuation", {{"model.layers=1"}, "for a rate per layer"}},
      {"gradients identity-path", {{"model.placement=residual-dual"}, "with one stream"}},
      {"gradients crossover", {{"model.placement=peri"}, "expected \"pre\" among the values"}},
      {"certify", {{"input.kind=gaussian"}, "any real input has no bound"}},
      {"theory", {{"theory.fault=query-gradient"}, "expected run.backward"}},
      {"propagate", {{R"(model.placement=["pre","peri"])"}, "expected one placement and one kind of input"}},
      {"train", {{"run.seeds=2"}, "expected one placement and one seed"}}};
  std::size_t refused = 0;
  for (const study::Study& study : studies()) {
    const auto found = impossible.find(study.name);
    if (found == impossible.end()) continue;
    CAPTURE(study.name);
    study::Request request = request_of(study, all_given);
    const std::vector<std::string>& settings = found->second.settings;
    request.settings.insert(request.settings.end(), settings.begin(), settings.end());
    if (study.name == "propagate" || study.name == "train") request.flags["dump"] = {folder.path("dump")};
    std::string message = "nothing: it was accepted";
    try {
      static_cast<void>(study.resolve(request));
    } catch (const ConfigError& error) {
      message = error.what();
    }
    CHECK_MESSAGE(message.find(found->second.reason) != std::string::npos, message);
    ++refused;
  }
  CHECK(refused == impossible.size());
}

TEST_CASE("what a study would compute is known before it runs, and the same for every number of threads") {
  const TemporaryFolder folder;
  const std::map<std::string, Given> all_given = given(folder);
  for (const study::Study& study : studies()) {
    CAPTURE(study.name);
    study::Request one = request_of(study, all_given);
    study::Request other = one;
    one.run["threads"] = {"1"};
    other.run["threads"] = {"2"};
    const study::Job a = study.resolve(one);
    const study::Job b = study.resolve(other);
    CHECK(config::config_sha256(a.resolved) == config::config_sha256(b.resolved));
    CHECK(a.file == b.file);
  }
}

}  // namespace
}  // namespace periscope::testing
