#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace periscope::app {

/// What a child process may use before it is ended.
struct ChildLimits {
  std::size_t memory;       ///< bytes of address space beyond what this process has
  unsigned cpu_seconds;     ///< of computing; ten times as many of waiting
  std::size_t answer_size;  ///< bytes that it may send
};

/// How a child ended, and what it sent before.
struct ChildAnswer {
  std::vector<std::string> messages;
  bool complete;        ///< it sent all that it had to and ended by itself
  std::string failure;  ///< otherwise: what ended it, as "it crashed with signal 11 (Segmentation fault)"
};

/// Sends one message of any bytes to the parent.
using SendMessage = std::function<void(const std::string&)>;

/// Calls `work` in a child process that has this one's memory as it is now, and returns what it sends: for libraries
/// that crash, hang or take all memory on hostile input. The child has no terminal (what it prints is lost), no core
/// dump, and ends with this process. A child that throws, crashes or exceeds a limit is incomplete. To be called
/// while this process has one thread only. Throws Error where there can be no child.
ChildAnswer in_child(const ChildLimits& limits, const std::function<void(const SendMessage&)>& work);

}  // namespace periscope::app
