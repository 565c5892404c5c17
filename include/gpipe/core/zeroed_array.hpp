#pragma once

namespace gpipe::detail {

/// A zero-initialized array whose length is a run-time value, for constant evaluation and run time. It has one element
/// more than its length, for the end of a list of first layers.
/// (It is not a vector: compilers count each call against their budget for constant evaluation.)
template <class T>
class zeroed_array {
 public:
  constexpr explicit zeroed_array(int length) : data_(new T[static_cast<unsigned>(length) + 1u]{}) {}
  constexpr ~zeroed_array() { delete[] data_; }
  zeroed_array(const zeroed_array&) = delete;
  zeroed_array& operator=(const zeroed_array&) = delete;

  constexpr T* data() const { return data_; }
  constexpr T& operator[](int index) const { return data_[index]; }

 private:
  T* data_;
};

/// An array as the result of a constant evaluation. It has one element more, so that none is empty.
template <class T, int Count>
struct constant_list {
  T elements[static_cast<unsigned>(Count) + 1u]{};
};

}  // namespace gpipe::detail
