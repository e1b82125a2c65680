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

namespace periscope {

/// Counts of what the files of a checkpoint hold. A config.json is short, but may claim to describe a stack of any
/// size; these counts bound what is allocated for it.
struct StoredCounts {
  std::uint64_t tensors = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t numbers = std::numeric_limits<std::uint64_t>::max();  ///< in all of them
};

/// A key that no public implementation of the families reads, and the values that agree with what they compute.
struct InertKey {
  std::string_view key;           ///< "unsloth_*": every key with that prefix
  std::string_view values = {};   ///< a JSON list; empty: any value
  std::string_view same_as = {};  ///< a key whose value, or default, it must repeat
};

/// Reads one object of a checkpoint's config.json. Every key has to be asked for: it is read, or must_be the one value
/// that leaves the function unchanged, or is harmless, or inert at its value; finish() rejects all others by name.
/// Null is rejected like any other wrong value, because the public implementation fails at it, but for the keys of
/// null_is_absent and the functions that give it a meaning.
/// Errors are InputError and name file, key, what was found and what was expected.
class ConfigReader {
 public:
  /// `object` is an object; `prefix` comes before its keys in messages, such as "text_config.".
  ConfigReader(nlohmann::json object, std::string path, std::string prefix = "");

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Sets what the files beside it hold, also for the objects within this one.
  void set_stored(const StoredCounts& stored) { stored_ = stored; }
  [[nodiscard]] const StoredCounts& stored() const { return stored_; }
  /// Lets finish() accept these keys if they are unknown. Keys of nested objects have their object's name as prefix
  /// ("text_config.x"). A key that is read throws ConfigError where it is asked for, one that is known to change the
  /// function at its value in finish(), and one that is not there in require_ignored().
  void ignore(std::span<const std::string> keys);
  /// Throws ConfigError for a key given to ignore() that no finished object has; the message names the nearest.
  void require_ignored() const;
  /// True if the key is there and not null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Makes null count as absent for a key, as in the public implementation of the family.
  void null_is_absent(std::string_view key) { absent_at_null_.emplace(key); }
  /// True if the key is there; if it is null, only where null does not count as absent.
  [[nodiscard]] bool is_given(std::string_view key) const;

  /// A whole number from `least` to `most`.
  [[nodiscard]] int integer(std::string_view key, int most, int least = 1);
  [[nodiscard]] int integer_or(std::string_view key, int fallback, int most, int least = 1);
  /// A finite number above 0.
  [[nodiscard]] double positive(std::string_view key);
  [[nodiscard]] double positive_or(std::string_view key, double fallback);
  /// A finite number.
  [[nodiscard]] double number_or(std::string_view key, double fallback);
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  [[nodiscard]] bool holds_object(std::string_view key) const;
  [[nodiscard]] bool holds_text(std::string_view key) const;
  /// The object under a key, whose keys have to be asked for in the same way.
  [[nodiscard]] ConfigReader object(std::string_view key);
  /// Those of a list of objects.
  [[nodiscard]] std::vector<ConfigReader> objects(std::string_view key);
  [[nodiscard]] bool same_as(const ConfigReader& other) const { return object_ == other.object_; }

  /// Null means none; only an absent key gives the fallback.
  [[nodiscard]] std::optional<int> integer_or_none(std::string_view key, std::optional<int> fallback, int most);
  [[nodiscard]] std::optional<double> positive_or_none(std::string_view key, std::optional<double> fallback);

  /// The key may be absent or this value; also null, which counts as false, unless the value is true.
  void must_be(std::string_view key, const nlohmann::json& expected);
  void harmless(std::span<const std::string_view> keys) { asked_.insert(keys.begin(), keys.end()); }
  void harmless(std::initializer_list<std::string_view> keys) { harmless(std::span(keys.begin(), keys.size())); }
  /// Sets the rows by which finish() accepts keys that nothing asks for. `rows` must outlive this object.
  void inert(std::span<const InertKey> rows) { inert_ = rows; }

  /// Rejects the keys that nothing asked for, unless they are null, inert at their value, or ignored.
  void finish() const;

  /// "unsupported: PATH: key K = FOUND: expected EXPECTED". To be thrown.
  [[nodiscard]] InputError unsupported_value(std::string_view key, std::string_view expected) const;
  /// "malformed: …", for what no valid file has.
  [[nodiscard]] InputError malformed_value(std::string_view key, std::string_view expected) const;

  /// Keys that were absent, also in objects within this one, and the values used instead, which are the public
  /// implementation's.
  [[nodiscard]] const std::map<std::string, std::string>& defaults() const { return shared_->defaults; }

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view key);
  [[nodiscard]] const nlohmann::json& get(std::string_view key, std::string_view expected);
  template <class T, class Read>
  [[nodiscard]] T read_or(std::string_view key, T fallback, const Read& read);
  template <class T, class Read>
  [[nodiscard]] std::optional<T> read_or_none(std::string_view key, std::optional<T> fallback, const Read& read);
  [[nodiscard]] std::string found(std::string_view key) const;
  void note_default(std::string_view key, const nlohmann::json& value);
  /// Returns nullopt if no row has the key, "" if it is inert at this value, else the values at which it is.
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
  StoredCounts stored_;
  std::set<std::string, std::less<>> asked_, absent_at_null_;
  std::span<const InertKey> inert_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace periscope
