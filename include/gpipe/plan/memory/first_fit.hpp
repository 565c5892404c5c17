#pragma once

#include <cstdint>
#include <limits>

namespace gpipe::detail {

/// Memory that hangs from above, for what lives a moment: a place is told by its depth, the bytes between the upper end
/// and its own. Each buffer takes the smallest gap that it fits in, or hangs below all others.
///
///     upper end | a | gap | b |   gap   | c | ...
///     depth     0                           deepest
///
/// The state has a fixed size, so that a constant evaluation can hand it on to the next. Where more than `most` buffers
/// are alive, the last are not taken back: room is lost, nothing else.
class hanging {
 public:
  /// Returns the depth of the buffer's lower end; 0 if that were more than `limit`, and then nothing has been placed.
  /// `id`, from -1 on, names the buffer until it is dropped.
  constexpr std::int64_t place(int id, std::int64_t bytes,
                               std::int64_t limit = (std::numeric_limits<std::int64_t>::max)()) {
    std::int64_t end = 0, depth = 0, smallest = 0;
    int at = -1;
    for (int i = 0; i < count_; ++i) {
      const run& r = runs_[i];
      const std::int64_t gap = r.depth - end;
      if (gap >= bytes && (at < 0 || gap < smallest)) at = i, depth = end, smallest = gap;
      end = r.depth + r.bytes;
    }
    if (at < 0) at = count_, depth = end;
    if (depth + bytes > limit) return 0;
    if (depth + bytes > deepest_) deepest_ = depth + bytes;
    if (count_ == most) {  // goes with its neighbour
      run& r = runs_[at == 0 ? 0 : at - 1];
      const std::int64_t upper = at == 0 ? depth : r.depth, lower = at == 0 ? r.depth + r.bytes : depth + bytes;
      r = {upper, lower - upper, nobody};
      return depth + bytes;
    }
    for (int i = count_++; i > at; --i) runs_[i] = runs_[i - 1];
    runs_[at] = {depth, bytes, id};
    return depth + bytes;
  }

  /// Gives the place back, if the buffer is here.
  constexpr void drop(int id) {
    const int at = find(id);
    if (at < count_) erase(at);
  }

  /// The buffer stays to the end: it becomes one with those beside it that stay.
  constexpr void keep(int id) {
    const int at = find(id);
    if (at == count_) return;
    runs_[at].id = nobody;
    if (joined(at)) erase(at + 1);
    if (at > 0 && joined(at - 1)) erase(at);
  }

  /// Where the lowest buffer ends now, and where one has ever ended.
  constexpr std::int64_t depth() const { return count_ == 0 ? 0 : runs_[count_ - 1].depth + runs_[count_ - 1].bytes; }
  constexpr std::int64_t deepest() const { return deepest_; }

 private:
  static constexpr int most = 128, nobody = -2;
  struct run {  // all zero at first: compilers unroll a loop that writes anything else
    std::int64_t depth = 0, bytes = 0;
    int id = 0;
  };

  constexpr int find(int id) const {
    int i = 0;
    while (i < count_ && runs_[i].id != id) ++i;
    return i;
  }
  constexpr void erase(int at) {
    --count_;
    for (int i = at; i < count_; ++i) runs_[i] = runs_[i + 1];
  }
  /// Joins a run with the next if both stay and touch; the next is then to be erased.
  constexpr bool joined(int at) {
    if (at + 1 >= count_) return false;
    run &r = runs_[at], &next = runs_[at + 1];
    if (r.id != nobody || next.id != nobody || r.depth + r.bytes != next.depth) return false;
    r.bytes += next.bytes;
    return true;
  }

  run runs_[most]{};
  int count_ = 0;
  std::int64_t deepest_ = 0;
};

}  // namespace gpipe::detail
