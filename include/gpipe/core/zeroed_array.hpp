#pragma once

namespace gpipe::detail {

/// A zeroed array whose length is known only when it is made, in constant evaluation and at run time alike.
/// (An array and not a vector: compilers count each call against their budget for constant evaluation.)
template <class T>
class scratch {
 public:
  constexpr explicit scratch(int length) : data_(new T[static_cast<unsigned>(length) + 1u]{}) {}
  constexpr ~scratch() { delete[] data_; }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  constexpr T* data() const { return data_; }
  constexpr T& operator[](int index) const { return data_[index]; }

 private:
  T* data_;
};

}  // namespace gpipe::detail
