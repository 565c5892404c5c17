#pragma once

namespace gpipe {

/// Who is told, in the last backward of a stage, which of its gradients are complete.
class gradient_listener {
 public:
  /// Those of the slots from `slot` on are.
  virtual void complete(int slot) = 0;

 protected:
  ~gradient_listener() = default;
};

}  // namespace gpipe
