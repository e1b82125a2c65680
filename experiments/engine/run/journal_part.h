#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace periscope::stacks {

/// A part of a journal's record, which may come from anywhere and is read strictly: what is missing or of another kind
/// is an InputError that names the file, the record and the part. Refers to the record.
class JournalPart {
 public:
  /// `where`: what messages begin with, as "FILE: record 3".
  JournalPart(const nlohmann::ordered_json& json, std::string where) : json_(json), where_(std::move(where)) {}

  /// An entry of an object.
  [[nodiscard]] JournalPart at(std::string_view key) const;
  /// An entry of a list.
  [[nodiscard]] JournalPart at(std::size_t index) const;
  /// The entries of a list.
  [[nodiscard]] std::vector<JournalPart> entries() const;
  [[nodiscard]] std::vector<JournalPart> entries(std::size_t count) const;

  [[nodiscard]] int whole(int least, int most) const;
  /// Null is NaN, as JSON writes it.
  [[nodiscard]] double number() const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] std::string text() const;
  /// Numbers that bits_of wrote.
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] std::vector<double> values(std::size_t count) const;

  [[nodiscard]] const nlohmann::ordered_json& json() const { return json_; }
  /// Throws InputError: this is not `expected`.
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  const nlohmann::ordered_json& json_;
  std::string where_;
};

}  // namespace periscope::stacks
