#include "sim/checkpoint/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "sim/checkpoint/file_error.h"

namespace periscope {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_depth = 128;

/// Parser callback that throws for input that the library would accept.
class StrictCallback {
 public:
  StrictCallback(const std::string& path, const std::string& name) : path_(path), name_(name) {}

  bool operator()(int /*depth*/, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (keys_.size() == max_depth) {
          throw malformed(path_, fmt::format("{} is nested more than {} deep", name_, max_depth));
        }
        keys_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end: keys_.pop_back(); break;
      case Json::parse_event_t::key:
        if (const auto& key = parsed.get_ref<const std::string&>(); !keys_.back().insert(key).second) {
          throw malformed(path_, fmt::format("{} has the key {} twice in one object", name_, in_quotes(key)));
        }
        break;
      case Json::parse_event_t::value: break;
    }
    return true;
  }

 private:
  const std::string& path_;
  const std::string& name_;
  std::vector<std::set<std::string>> keys_;  ///< keys of the open objects; empty sets for open arrays
};

/// Describes the position of a syntax error: "at byte 17, near "…"".
std::string place(std::string_view text, std::size_t byte) {
  constexpr std::size_t around = 20;
  if (byte >= text.size()) return fmt::format("at its end, byte {}", text.size());
  const std::size_t begin = byte - std::min(byte, around);
  return fmt::format("at byte {}, near {}", byte, in_quotes(text.substr(begin, 2 * around)));
}

}  // namespace

Json parse_strict_json(std::span<const std::byte> bytes, const std::string& path, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xef\xbb\xbf")) {
    throw malformed(path, name + " begins with a byte-order mark, which JSON does not allow");
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw malformed(path, fmt::format("{} is not JSON: a zero byte {}", name, place(text, zero)));
  }
  try {
    return Json::parse(text.begin(), text.end(), StrictCallback(path, name));
  } catch (const Json::parse_error& error) {
    reject_other_formats(bytes, path);
    throw malformed(
        path, fmt::format("{} is not JSON: {}", name, place(text, error.byte - std::min<std::size_t>(error.byte, 1))));
  } catch (const Json::out_of_range&) {
    throw malformed(path, name + " has a number beyond the range of double");
  }
}

Json read_strict_json(const MappedFile& file) {
  constexpr std::size_t limit = 100'000'000;
  if (file.bytes().size() > limit) {
    throw malformed(file.path(), fmt::format("{} bytes, expected at most {}", file.bytes().size(), limit));
  }
  return parse_strict_json(file.bytes(), file.path(), "the file");
}

}  // namespace periscope
