#include "sim/spec/streams.h"

#include <set>
#include <string_view>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

// Duplicate stream numbers (duplicate case values) and streams without a case (-Wswitch) do not compile.
constexpr std::string_view name_of(Stream stream) {
  static_assert(weight_names.size() <= 100);
  switch (stream) {
    case Stream::input: return "input";
    case Stream::common_input: return "common_input";
    case Stream::token_ids: return "token_ids";
    case Stream::labels: return "labels";
    case Stream::batches: return "batches";
    case Stream::language_laws: return "language_laws";
    case Stream::language_text: return "language_text";
    case Stream::attack_start: return "attack_start";
    case Stream::attack_ids: return "attack_ids";
    case Stream::verify_case: return "verify_case";
    case Stream::verify_attack: return "verify_attack";
    case Stream::verify_massive: return "verify_massive";
    case Stream::soundness_checkpoint: return "soundness_checkpoint";
    case Stream::soundness_run: return "soundness_run";
  }
  const auto number = static_cast<std::uint32_t>(stream);
  return number < weight_names.size() ? weight_names[number] : "unassigned";
}

TEST_CASE("streams of weights differ from all other streams") {
  std::set<std::string_view> names;
  for (std::uint32_t w = 0; w < weight_names.size(); ++w) {
    CHECK(name_of(stream_of(static_cast<Weight>(w))) == weight_names[w]);
    names.insert(weight_names[w]);
  }
  CHECK(names.size() == weight_names.size());
  CHECK(name_of(Stream{99}) == "unassigned");
  for (std::uint32_t w = 0; w < 100; ++w) {
    CHECK(name_of(matrix_free_forward(static_cast<Weight>(w))) == "unassigned");
    CHECK(name_of(matrix_free_backward(static_cast<Weight>(w))) == "unassigned");
    CHECK(name_of(bias_stream(static_cast<Weight>(w))) == "unassigned");
    CHECK(matrix_free_forward(static_cast<Weight>(w)) < matrix_free_backward(Weight::q));
    CHECK(matrix_free_backward(static_cast<Weight>(w)) < bias_stream(Weight::q));
  }
}

TEST_CASE("every stochastically rounded tensor has its own stream") {
  std::set<std::uint32_t> numbers;
  std::size_t count = 0;
  const auto add = [&](Stream stream) {
    CHECK(name_of(stream) == "unassigned");
    numbers.insert(static_cast<std::uint32_t>(stream));
    ++count;
  };
  for (const Rounded what : {Rounded::signal, Rounded::gradient, Rounded::weight, Rounded::bias, Rounded::input}) {
    for (std::uint32_t s = 0; s < signal_names.size(); ++s) add(rounding_stream(static_cast<Signal>(s), what));
    for (std::uint32_t w = 0; w < weight_names.size(); ++w) add(rounding_stream(static_cast<Weight>(w), what));
  }
  CHECK(numbers.size() == count);
}

TEST_CASE("random-stream places of the theory are at least 2^20 sublayers apart") {
  namespace place = theory::place;
  constexpr std::uint64_t most_sublayers = 1U << 20U;
  std::set<std::uint64_t> starts{0, place::input, place::table};
  std::size_t count = starts.size();
  for (const std::uint64_t half : {std::uint64_t{0}, place::second_set}) {
    for (const std::uint64_t way : {std::uint64_t{0}, place::backward_pass, place::backward_pass + place::logits}) {
      starts.insert(place::patterns + way + half);
      ++count;
    }
  }
  REQUIRE(starts.size() == count);
  starts.erase(place::table);  // occupies a single place, so it may directly follow the input
  for (auto next = std::next(starts.begin()); next != starts.end(); ++next) {
    CHECK(*next - *std::prev(next) > most_sublayers);
  }
}

}  // namespace
}  // namespace periscope
