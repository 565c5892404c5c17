#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/plan/memory/memory_kind.hpp>

namespace gpipe::detail {

// change: the memory layout
/// Memory for short-lived buffers, filled from its upper end. The depth of a buffer is the number of bytes from the
/// upper end to the buffer's lower end. Each buffer takes the smallest gap that it fits in, or lies below all others.
///
///     upper end | a | gap | b |   gap   | c | ...
///     depth     0                           deepest
///
/// The state has a fixed size, so a constant evaluation can pass it to the next. If more than `max_runs` buffers are
/// alive, the last are not freed, which only wastes memory.
class first_fit_from_top {
 public:
  /// Returns the depth of the buffer's lower end; 0, and nothing is placed, if it exceeds `limit`. `id`, from -1 on,
  /// names the buffer until it is dropped.
  constexpr std::int64_t place(int id, std::int64_t bytes,
                               std::int64_t limit = (std::numeric_limits<std::int64_t>::max)()) {
    std::int64_t end = 0, depth = 0, smallest = 0;
    int index = -1;
    for (int i = 0; i < count_; ++i) {
      const run& r = runs_[i];
      const std::int64_t gap = r.depth - end;
      if (gap >= bytes && (index < 0 || gap < smallest)) index = i, depth = end, smallest = gap;
      end = r.depth + r.bytes;
    }
    if (index < 0) index = count_, depth = end;
    if (depth + bytes > limit) return 0;
    if (depth + bytes > deepest_) deepest_ = depth + bytes;
    if (count_ == max_runs) {  // joins its neighbour
      run& r = runs_[index == 0 ? 0 : index - 1];
      const std::int64_t upper = index == 0 ? depth : r.depth, lower = index == 0 ? r.depth + r.bytes : depth + bytes;
      r = {upper, lower - upper, kept_id};
      return depth + bytes;
    }
    for (int i = count_++; i > index; --i) runs_[i] = runs_[i - 1];
    runs_[index] = {depth, bytes, id};
    return depth + bytes;
  }

  /// Frees the buffer, if it exists.
  constexpr void drop(int id) {
    const int index = find(id);
    if (index < count_) erase(index);
  }

  /// The buffer stays to the end: it joins its neighbours that stay.
  constexpr void keep(int id) {
    const int index = find(id);
    if (index == count_) return;
    runs_[index].id = kept_id;
    if (joined(index)) erase(index + 1);
    if (index > 0 && joined(index - 1)) erase(index);
  }

  /// The depth of the lowest buffer now, and its maximum so far.
  constexpr std::int64_t depth() const { return count_ == 0 ? 0 : runs_[count_ - 1].depth + runs_[count_ - 1].bytes; }
  constexpr std::int64_t deepest() const { return deepest_; }

 private:
  static constexpr int max_runs = 128, kept_id = -2;
  struct run {  // all zero at first: compilers unroll a loop that writes anything else
    std::int64_t depth = 0, bytes = 0;
    int id = 0;
  };

  constexpr int find(int id) const {
    int i = 0;
    while (i < count_ && runs_[i].id != id) ++i;
    return i;
  }
  constexpr void erase(int index) {
    --count_;
    for (int i = index; i < count_; ++i) runs_[i] = runs_[i + 1];
  }
  /// Joins a run with the next if both stay and touch; the caller then erases the next.
  constexpr bool joined(int index) {
    if (index + 1 >= count_) return false;
    run &r = runs_[index], &next = runs_[index + 1];
    if (r.id != kept_id || next.id != kept_id || r.depth + r.bytes != next.depth) return false;
    r.bytes += next.bytes;
    return true;
  }

  run runs_[max_runs]{};
  int count_ = 0;
  std::int64_t deepest_ = 0;
};

/// Bytes kept so far, and the maximum of them plus the buffers above.
struct kept_stack {
  std::int64_t bytes = 0, height = 0;

  constexpr void under(std::int64_t depth) {
    if (bytes + depth > height) height = bytes + depth;
  }
};

/// The progress and the results of a layout. It has a fixed size: one constant evaluation passes it to the next.
struct layout_state {
  int tick = 0;  ///< of 2 n: forward of each of the n layers, then backward of each
  stage_memory memory;
  first_fit_from_top transient;  ///< above all kept values
  first_fit_from_top inside;     ///< in the unused bytes of the micro-batch's kept part
  kept_stack late, early;        ///< held for delayed parameter parts; above them the others, freed from above
  std::int64_t height = 0;       ///< of the working set
  std::int64_t alive = 0;        ///< kept bytes
  std::int64_t passing = 0;      ///< transient bytes
  std::int64_t max_alive = 0;    ///< of both
  std::int64_t separate = 0;     ///< transient buffers, if each had separate memory
  int share = 0;                 ///< whose optimizer state is placed, or counted if there is one share
  std::int64_t share_begin = 0, share_arrays = 0;    ///< the first byte of its parameters, and bytes of its arrays
  std::int64_t own_derived = 0, shared_derived = 0;  ///< see `put_derived`
  static constexpr int ticks_known = 16;
  std::int64_t depth[ticks_known]{};  ///< of `transient` in the last ticks of forward
};

}  // namespace gpipe::detail
