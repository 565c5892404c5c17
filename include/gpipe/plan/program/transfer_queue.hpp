#pragma once

#include <gpipe/plan/schedule/action.hpp>

namespace gpipe::detail {

/// A send or a receive, and its place in the order of all: before which tick, and there before which others.
struct appointment {
  int tick = 0, among = 0;
  instruction line{};

  constexpr bool operator<(const appointment& other) const {
    if (tick != other.tick) return tick < other.tick;
    if (among != other.among) return among < other.among;
    return line.micro_batch < other.line.micro_batch;
  }
};

/// The transfers that a worker has yet to make, in their order.
class agenda {
 public:
  constexpr agenda() : list_(new appointment[4]{}), room_(4) {}
  constexpr ~agenda() { delete[] list_; }
  agenda(const agenda&) = delete;
  agenda& operator=(const agenda&) = delete;

  constexpr void put(const appointment& it) {
    if (count_ == room_) grow();
    int i = count_++;
    for (; i > 0 && list_[i - 1] < it; --i) list_[i] = list_[i - 1];
    list_[i] = it;
  }
  constexpr bool holds_one_before(int tick) const { return count_ > 0 && list_[count_ - 1].tick <= tick; }
  constexpr instruction take() { return list_[--count_].line; }

 private:
  constexpr void grow() {
    appointment* more = new appointment[static_cast<unsigned>(2 * room_)]{};
    for (int i = 0; i < count_; ++i) more[i] = list_[i];
    delete[] list_;
    list_ = more;
    room_ *= 2;
  }

  appointment* list_;  // the next one is the last
  int room_, count_ = 0;
};

}  // namespace gpipe::detail
