#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidcheck.h>
#include "tests/support/doctest.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_reader.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/mutate.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

/// Header entry of a tensor, valid or not.
struct Stated {
  SafetensorsType type;
  std::vector<std::int64_t> shape;
  std::int64_t begin;
  std::int64_t end;
};

std::int64_t count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// A few contiguous tensors of random types and shapes, each a whole number of bytes.
std::vector<Stated> random_layout() {
  std::vector<Stated> all;
  std::int64_t end = 0;
  const int tensors = *rc::gen::inRange(0, 5);
  for (int i = 0; i < tensors; ++i) {
    const auto type = static_cast<SafetensorsType>(*rc::gen::inRange(0, static_cast<int>(SafetensorsType::f4) + 1));
    auto shape =
        *rc::gen::resize(3, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 5)));
    if (bits_of(type) < 8) shape.push_back(4);
    const std::int64_t bytes = count(shape) * bits_of(type) / 8;
    all.push_back({type, shape, end, end + bytes});
    end += bytes;
  }
  return all;
}

std::string name(std::size_t i) { return fmt::format("tensor.{}", i); }

std::string header_of(const std::vector<Stated>& tensors, const std::vector<std::size_t>& order) {
  std::vector<std::string> all;
  for (const std::size_t i : order) {
    const Stated& t = tensors[i];
    all.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name(i), name_of(t.type),
                              fmt::join(t.shape, ","), t.begin, t.end));
  }
  return fmt::format("{{{}}}", fmt::join(all, ","));
}

/// Returns true if all sizes match and the tensors tile the data from 0 to its end.
bool is_valid(std::vector<Stated> tensors, std::int64_t data) {
  for (const Stated& t : tensors) {
    if (t.begin < 0 || t.end < t.begin || std::ranges::any_of(t.shape, [](std::int64_t n) { return n < 0; }))
      return false;
    if (count(t.shape) * bits_of(t.type) != 8 * (t.end - t.begin)) return false;
  }
  std::int64_t at = 0;
  while (!tensors.empty()) {
    auto next = std::ranges::find_if(tensors, [&](const Stated& t) { return t.begin == at && t.end == at; });
    if (next == tensors.end()) next = std::ranges::find(tensors, at, &Stated::begin);
    if (next == tensors.end()) return false;
    at = next->end;
    tensors.erase(next);
  }
  return at == data;
}

/// Slightly changes a random number in a header entry, its type, or the length of the data.
void disturb(std::vector<Stated>& tensors, std::int64_t& data) {
  const auto step = *rc::gen::element<std::int64_t>(-8, -4, -2, -1, 1, 2, 4, 8);
  const int kind = *rc::gen::inRange(0, 6);
  if (kind == 0 || tensors.empty()) {
    data = std::max<std::int64_t>(0, data + step);
    return;
  }
  Stated& t = tensors[*rc::gen::inRange<std::size_t>(0, tensors.size())];
  switch (kind) {
    case 1: t.begin += step; break;
    case 2: t.end += step; break;
    case 3:
      t.begin += step;
      t.end += step;
      break;
    case 4:
      t.type = static_cast<SafetensorsType>(*rc::gen::inRange(0, static_cast<int>(SafetensorsType::f4) + 1));
      break;
    default:
      if (!t.shape.empty()) t.shape[*rc::gen::inRange<std::size_t>(0, t.shape.size())] += step;
      break;
  }
}

std::vector<std::size_t> random_order(std::size_t size) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(*rc::gen::arbitrary<std::uint64_t>()));
  return order;
}

TEST_CASE("random tensors survive a round trip through writer and reader") {
  const TemporaryFolder folder;
  CHECK(rc::check([&] {
    const std::vector<Stated> tensors = random_layout();
    std::vector<SafetensorsEntry> entries;
    for (std::size_t i = 0; i < tensors.size(); ++i) entries.push_back({name(i), tensors[i].type, tensors[i].shape});
    std::vector<std::string> written;
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    for (const Stated& t : tensors) {
      std::string bytes;
      for (std::int64_t i = t.begin; i < t.end; ++i) bytes += static_cast<char>(random() & 0xff);
      written.push_back(bytes);
    }
    const std::string path = folder.path("random.safetensors");
    SafetensorsWriter writer(path, entries);
    for (const std::size_t i : random_order(tensors.size())) writer.put_bytes(name(i), bytes_of(written[i]));
    writer.close();

    const SafetensorsFile file(path);
    RC_ASSERT(file.tensors().size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const SafetensorsView& view = file.find(name(i));
      RC_ASSERT(view.type == tensors[i].type);
      RC_ASSERT(view.shape == tensors[i].shape);
      RC_ASSERT(std::ranges::equal(view.bytes, bytes_of(written[i])));
    }
  }));
}

/// Returns whether the bytes are accepted. Fails unless the tensors match, or the error says "malformed".
bool accepts(const std::string& bytes, const std::vector<Stated>& tensors, std::int64_t data) {
  SafetensorsContents contents;
  try {
    contents = parse_safetensors(bytes_of(bytes), "random");
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("malformed: random: "));
    return false;
  }
  const std::byte* const begin = bytes_of(bytes).data() + (static_cast<std::int64_t>(bytes.size()) - data);
  RC_ASSERT(contents.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SafetensorsView& view = contents.tensors.at(name(i));
    RC_ASSERT(view.type == tensors[i].type);
    RC_ASSERT(view.shape == tensors[i].shape);
    RC_ASSERT(view.bytes.data() == begin + tensors[i].begin);
    RC_ASSERT(view.bytes.data() + view.bytes.size() == begin + tensors[i].end);
  }
  return true;
}

TEST_CASE("the reader accepts a random layout if and only if it is valid") {
  constexpr int layouts = 50;  // per RapidCheck case
  int accepted = 0;
  int rejected = 0;
  CHECK(rc::check([&] {
    for (int i = 0; i < layouts; ++i) {
      std::vector<Stated> tensors = random_layout();
      std::int64_t data = tensors.empty() ? 0 : tensors.back().end;
      const int disturbances = *rc::gen::inRange(0, 4);
      for (int k = 0; k < disturbances; ++k) disturb(tensors, data);
      const std::string header = header_of(tensors, random_order(tensors.size()));
      const bool valid = is_valid(tensors, data);
      RC_ASSERT(accepts(safetensors_bytes(header, std::string(static_cast<std::size_t>(data), 'x')), tensors, data) ==
                valid);
      ++(valid ? accepted : rejected);
    }
  }));
  CHECK(accepted > 1000);
  CHECK(rejected > 1000);
}

TEST_CASE("mutated files are read or rejected with an InputError") {
  std::vector<std::string> valid;
  for (const TestFile& file : odd_safetensors()) valid.push_back(file.bytes);
  valid.push_back(safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},"b":{"dtype":"BOOL","shape":)"
      R"([2,2],"data_offsets":[16,20]},"c":{"dtype":"U64","shape":[1],"data_offsets":[20,28]},"d":{"dtype":"F8_E4M3",)"
      R"("shape":[3,1],"data_offsets":[28,31]},"e":{"dtype":"BF16","shape":[],"data_offsets":[31,33]}})",
      std::string(33, '\x01')));
  constexpr int mutations = 20'000;
  std::mt19937_64 random(5);
  std::map<ReadOutcome, int> outcomes;
  for (int i = 0; i < mutations; ++i) {
    const std::string& original = valid[static_cast<std::size_t>(i) % valid.size()];
    ++outcomes[read_everything(mutated(original, random))];
  }
  CHECK(outcomes[ReadOutcome::rejected] > mutations / 2);
  CHECK(outcomes[ReadOutcome::rejected_when_read] > 0);
  CHECK(outcomes[ReadOutcome::read] > mutations / 100);
}

}  // namespace
}  // namespace periscope::testing
