#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/spec/read_keys.h"

namespace periscope {

/// Contents of a checkpoint's files. They bound what is allocated for a config.json, which may claim any size.
struct StoredCounts {
  std::uint64_t tensors = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t numbers = std::numeric_limits<std::uint64_t>::max();  ///< in all of them
};

/// A key that no public implementation reads, and the values that agree with what they compute.
struct InertKey {
  std::string_view key;           ///< "unsloth_*": every key with that prefix
  std::string_view values = {};   ///< a JSON list; empty: any value
  std::string_view same_as = {};  ///< a key whose value, or default, it must repeat
};

/// Reads one object of a checkpoint's config.json. Every key is read, or must_be the one value that leaves the function
/// unchanged, or is harmless, or inert at its value; finish() rejects all others by name. Null is a wrong value, since
/// the public implementation fails at it, except for null_is_absent and the functions that give it a meaning. Errors
/// are InputError and name file, key, what was found and what was expected.
class ConfigReader {
 public:
  /// `prefix` comes before keys in messages, such as "text_config.". Throws InputError unless `object` is an object.
  ConfigReader(nlohmann::json object, std::string path, std::string prefix = "");

  /// Bounds of sizes, also for nested objects; none unless set.
  void set_counts(const StoredCounts& counts) { counts_ = counts; }
  [[nodiscard]] const StoredCounts& counts() const { return counts_; }
  /// Lets finish() accept these keys if they are unknown ("text_config.x" in a nested object). Throws ConfigError when
  /// such a key is read, and in finish() if it is known to change the function at its value.
  void ignore(std::span<const std::string> keys);
  /// Throws ConfigError for an ignored key that no finished object has; the message names the nearest.
  void require_ignored() const;
  /// True if the key is present and not null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Null counts as absent for this key, as in the family's public implementation.
  void null_is_absent(std::string_view key) { absent_at_null_.emplace(key); }
  /// True if the key is present, unless it is null and null counts as absent.
  [[nodiscard]] bool is_given(std::string_view key) const;

  /// A whole number from `least` to `most`.
  [[nodiscard]] int integer(std::string_view key, int most, int least = 1);
  [[nodiscard]] int integer_or(std::string_view key, int fallback, int most, int least = 1);
  /// A finite number above 0.
  [[nodiscard]] double positive(std::string_view key);
  [[nodiscard]] double positive_or(std::string_view key, double fallback);
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  /// Reads a key and returns true; leaves `target` unchanged if the key is absent.
  template <class T>
  bool read(std::string_view key, T& target) {
    static_cast<void>(find(key));
    if (!is_given(key)) return false;
    if (const std::string expected = take(*stored(key), target); !expected.empty()) fail(key, expected);
    return true;
  }
  /// The value, for keys that take several forms; nullptr if absent or null.
  const nlohmann::json* find(std::string_view key);
  /// A nested object, with a finish() of its own.
  [[nodiscard]] ConfigReader table(std::string_view key);
  /// The objects of a list, which may be absent.
  [[nodiscard]] std::vector<ConfigReader> tables(std::string_view key, std::string_view expected);
  [[nodiscard]] bool same_as(const ConfigReader& other) const { return object_ == other.object_; }

  /// Null means none; only an absent key gives the fallback.
  [[nodiscard]] std::optional<int> integer_or_none(std::string_view key, std::optional<int> fallback, int most);
  [[nodiscard]] std::optional<double> positive_or_none(std::string_view key, std::optional<double> fallback);

  /// The key may be absent, this value, or null (which counts as false, so not if the value is true).
  void must_be(std::string_view key, const nlohmann::json& expected);
  void harmless(std::span<const std::string_view> keys) { asked_.insert(keys.begin(), keys.end()); }
  void harmless(std::initializer_list<std::string_view> keys) { harmless(std::span(keys.begin(), keys.size())); }
  /// Rows of unread keys that finish() accepts. `rows` must outlive this object.
  void inert(std::span<const InertKey> rows) { inert_ = rows; }

  /// Rejects unread keys, unless they are null, inert at their value, or ignored.
  void finish() const;

  /// "unsupported: PATH: key K = FOUND: expected EXPECTED". To be thrown.
  [[nodiscard]] InputError unsupported_value(std::string_view key, std::string_view expected) const;
  /// "malformed: …", for what no valid file has.
  [[nodiscard]] InputError malformed_value(std::string_view key, std::string_view expected) const;
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const {
    throw malformed_value(key, expected);
  }

  /// Absent keys, also of nested objects, and the public implementation's defaults.
  [[nodiscard]] const std::map<std::string, std::string>& defaults() const { return shared_->defaults; }

 private:
  [[nodiscard]] ConfigReader nested(const nlohmann::json& object, const std::string& name) const;
  /// The value, even if null; nullptr if the key is absent.
  [[nodiscard]] const nlohmann::json* stored(std::string_view key) const;
  [[nodiscard]] const nlohmann::json& get(std::string_view key, std::string_view expected);
  template <class T, class Read>
  [[nodiscard]] T read_or(std::string_view key, T fallback, const Read& read);
  template <class T, class Read>
  [[nodiscard]] std::optional<T> read_or_none(std::string_view key, std::optional<T> fallback, const Read& read);
  [[nodiscard]] std::string found(std::string_view key) const;
  void note_default(std::string_view key, const nlohmann::json& value);
  /// nullopt if no row has the key, "" if it is inert at this value, else the values at which it is.
  [[nodiscard]] std::optional<std::string> inert_values(const std::string& key, const nlohmann::json& value) const;
  /// "--ignore-key K: expected a key that does not change the function; WHY". To be thrown.
  [[nodiscard]] ConfigError cannot_be_ignored(std::string_view key, std::string_view why) const;

  /// Shared by the readers of an object and of its nested objects.
  struct Shared {
    std::map<std::string, std::string> defaults;
    std::set<std::string, std::less<>> ignored;
    std::vector<std::string> keys;  ///< of finished objects, with their prefixes
  };

  nlohmann::json object_;
  std::string path_;
  std::string prefix_;
  StoredCounts counts_;
  std::set<std::string, std::less<>> asked_, absent_at_null_;
  std::span<const InertKey> inert_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace periscope
