#include "experiments/app/child_process.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

constexpr app::ChildLimits limits{.memory = 64U << 20U, .cpu_seconds = 1, .answer_size = 1U << 20U};

// The address sanitizer's allocator answers a limit on memory in its own ways, which differ between compilers.
#if defined(__SANITIZE_ADDRESS__)
#define PERISCOPE_TESTED_WITH_ASAN true
#elif defined(__has_feature)
#define PERISCOPE_TESTED_WITH_ASAN __has_feature(address_sanitizer)
#else
#define PERISCOPE_TESTED_WITH_ASAN false
#endif
constexpr bool memory_is_limited = !PERISCOPE_TESTED_WITH_ASAN;

}  // namespace

TEST_CASE("a child's messages arrive as they were sent") {
  const std::string bytes("a\0\n\xff", 4);
  const app::ChildAnswer answer = app::in_child(limits, [&](const app::SendMessage& send) {
    send(bytes);
    send("");
    send(std::string(500'000, 'x'));
    std::fputs("what a child prints is lost\n", stderr);
  });
  CHECK(answer.complete);
  CHECK(answer.failure.empty());
  CHECK(answer.messages == std::vector<std::string>{bytes, "", std::string(500'000, 'x')});
}

TEST_CASE("a child that crashes, throws, hangs, or takes or sends too much is incomplete") {
  struct Case {
    std::string what;
    void (*work)(const app::SendMessage& send);
    const char* failure;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"is killed", [](const app::SendMessage&) { std::raise(SIGKILL); }, "killed"},
           {"crashes", [](const app::SendMessage&) { std::raise(SIGUSR1); }, "signal"},
           {"throws", [](const app::SendMessage&) { throw std::runtime_error("no"); }, "failed"},
           {"hangs",
            [](const app::SendMessage&) {
              for (std::atomic<int> i = 0;; ++i) {
              }
            },
            "too long"},
           {"takes too much",
            [](const app::SendMessage& send) {
              for (std::vector<std::string> all;; all.push_back(std::string(1U << 20U, 'x'))) send("");
            },
            "memory"},
           {"sends too much",
            [](const app::SendMessage& send) {
              while (true) send(std::string(1000, 'x'));
            },
            "more than"}}) {
    CAPTURE(c.what);
    if (!memory_is_limited && c.failure == std::string_view("memory")) {
      MESSAGE("left out with the address sanitizer");
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const app::ChildAnswer answer = app::in_child(limits, [&](const app::SendMessage& send) {
      send("begun");
      c.work(send);
    });
    CHECK_FALSE(answer.complete);
    CHECK_MESSAGE(answer.failure.find(c.failure) != std::string::npos, answer.failure);
    CHECK(answer.messages.front() == "begun");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  }
}

}  // namespace periscope
