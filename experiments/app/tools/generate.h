#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/checkpoint/tokenizer.h"
#include "sim/model/context.h"

namespace periscope::app {

/// Continues a sequence by `count` tokens, each the one with the largest logit (of equals the first): a forward pass
/// over `ids`, then one over each new token, with the keys and values of those before it (KeyValueCache). `on_token`
/// gets each as it comes.
[[nodiscard]] std::vector<int> generate_greedily(const StackContext& context, std::vector<int> ids, int count,
                                                 const std::function<void(int)>& on_token);

/// Prints a text while it grows, so that whoever stops it keeps what there is. A terminal gets what is printable: the
/// text comes from a foreign file, and could command it. A file or a pipe gets the bytes as they are.
class GrowingText {
 public:
  /// For standard output, which may be a terminal.
  explicit GrowingText(bool terminal) : terminal_(terminal) {}
  /// Prints what `whole`, the text so far, has beyond the last call's. A terminal waits for the rest of a character.
  void show(const std::string& whole);
  /// Prints what was waited for, and ends the line, if there was anything to show.
  void end();

 private:
  void print(std::size_t end);

  bool terminal_;
  bool begun_ = false;
  std::string whole_;
  std::size_t printed_ = 0;
};

}  // namespace periscope::app
