#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe::detail {

/// A send or a receive, and its order: the tick that it precedes, then its rank among the transfers before this tick.
struct pending_transfer {
  int tick = 0, rank = 0;
  instruction line{};

  constexpr bool operator<(const pending_transfer& right) const {
    if (tick != right.tick) return tick < right.tick;
    if (rank != right.rank) return rank < right.rank;
    return line.micro_batch < right.line.micro_batch;
  }
};

/// The transfers that a worker has not made yet, in their order.
class transfer_queue {
 public:
  constexpr transfer_queue() : list_(new pending_transfer[4]{}), capacity_(4) {}
  constexpr ~transfer_queue() { delete[] list_; }
  transfer_queue(const transfer_queue&) = delete;
  transfer_queue& operator=(const transfer_queue&) = delete;

  constexpr void put(const pending_transfer& transfer) {
    if (count_ == capacity_) grow();
    int i = count_++;
    for (; i > 0 && list_[i - 1] < transfer; --i) list_[i] = list_[i - 1];
    list_[i] = transfer;
  }
  constexpr bool holds_one_before(int tick) const { return count_ > 0 && list_[count_ - 1].tick <= tick; }
  constexpr instruction take() { return list_[--count_].line; }

 private:
  constexpr void grow() {
    pending_transfer* larger = new pending_transfer[static_cast<unsigned>(2 * capacity_)]{};
    for (int i = 0; i < count_; ++i) larger[i] = list_[i];
    delete[] list_;
    list_ = larger;
    capacity_ *= 2;
  }

  pending_transfer* list_;  // the next one is the last
  int capacity_, count_ = 0;
};

}  // namespace gpipe::detail
