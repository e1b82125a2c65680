#pragma once

namespace periscope {

/// Base of the abstract classes: their objects are used through references and pointers, and never copied.
class Interface {
 public:
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  virtual ~Interface() = default;

 protected:
  Interface() = default;
};

}  // namespace periscope
