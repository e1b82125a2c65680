#pragma once

namespace periscope {

/// Base of abstract classes. Their objects are used through references and pointers, and cannot be copied.
class Interface {
 public:
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  virtual ~Interface() = default;

 protected:
  Interface() = default;
};

}  // namespace periscope
