#pragma once

#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/partition/range_sums.hpp>

namespace gpipe::detail {

/// The result of a search that looks at a limited number of partial cuts.
enum class answer : std::uint8_t { found, none, unknown };

/// Finds the best cut that obeys a memory limit, or the cut whose largest stage needs the fewest bytes.
///
/// The number of gradients that return to a stage depends on the cuts behind it. So partial cuts grow from the last
/// stage on, best first (A*; Hart, Nilsson and Raphael, 1968): by a lower bound of the whole cut, in which the slots
/// before are shared out evenly. Only the first in this order is checked for memory.
///
///     0 ...       begin
///     [ still free ][  stage s  ][  s + 1  ] ... ]
///
/// An input of a stage takes more slots if it skips the stage before, whose cut is not known yet. A stage passes as if
/// no input did; it is *certain* if it obeys the limit even if every possible input does. A whole cut that is not
/// certain is measured again.
class limited_search {
 public:
  static constexpr int max_partials = 1 << 15;

  /// With a limit the objective counts, without one the bytes. The problem has been solved without a limit before.
  constexpr limited_search(const partition_problem& p, const network& net, const memory_requirements* needs,
                           std::int64_t limit)
      : p_(p),
        net_(net),
        needs_(needs),
        limit_(limit),
        moved_(p),
        min_(p.slots + 1),
        settled_(p.stages * (p.slots + 1)),
        shared_(net.value_count),
        first_(p.stages),
        other_(p.stages) {
    sum_min();
    for (int v = 0; v < net.value_count; ++v)
      if (const value& of = net.values[v];
          of.gradient && of.readers > 0 && of.writer >= 0 && net.reader(v, of.readers - 1) > of.writer + 1)
        shared_[shared_count_++] = v;
  }
  constexpr ~limited_search() { delete[] all_; delete[] heap_; }
  limited_search(const limited_search&) = delete;
  limited_search& operator=(const limited_search&) = delete;

  GPIPE_COLD constexpr answer find(int* first) {
    push({.stage = p_.stages, .begin = p_.slots, .checked = true, .certain = true});
    while (queued_ > 0) {
      const int i = pop();
      follow(i, first_.data());
      if (!all_[i].checked && !check_memory(i)) continue;
      if (all_[i].stage == 0 && !all_[i].certain && !measured(i)) continue;
      const partial it = all_[i];
      if (it.stage == 0) {
        for (int s = 0; s <= p_.stages; ++s) first[s] = first_[s];
        bytes_ = it.bytes;
        return answer::found;
      }
      if (it.stage < p_.stages && dominated(i)) continue;
      if (!grow(i)) return answer::unknown;
    }
    return answer::none;
  }
  /// Bytes of the largest stage of the cut that was found.
  constexpr std::int64_t bytes() const { return bytes_; }

 private:
  struct partial {
    int stage = 0, begin = 0, behind = -1;
    bool checked = false;  ///< its first stage obeys the limit, or its bytes count
    bool certain = false;  ///< so do all its stages, for any cut before
    load max{};            ///< of a stage
    std::int64_t sum = 0, total = 0, bytes = 0;
    std::int64_t bound = 0, both = 0;  ///< no cut that ends like this has a smaller objective, nor f + b of a stage
    int before = -1;                   ///< the one settled before at the same (stage, begin)
  };

  constexpr bool by_bytes() const { return limit_ == unlimited; }
  static constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

  constexpr void sum_min() {
    for (int l = 0; l < p_.slots; ++l) {
      load min{unlimited, unlimited, unlimited};
      for (int s = 0; s < (p_.kinds > 1 ? p_.stages : 1); ++s) {
        const slot_cost& c = p_.costs_on(s)[l];
        if (c.forward < min.forward) min.forward = c.forward;
        if (c.backward < min.backward) min.backward = c.backward;
        if (c.forward + c.backward < min.both) min.both = c.forward + c.backward;
      }
      min_[l + 1] = {min_[l].forward + min.forward, min_[l].backward + min.backward,
                       min_[l].both + min.both};
    }
  }

  constexpr void bound(partial& it) const {
    const load& left = min_[it.begin];
    const auto with_mean = [&it](std::int64_t max, std::int64_t rest) {
      return it.stage == 0 ? max : larger(max, rest / it.stage + (rest % it.stage != 0));
    };
    it.both = with_mean(it.max.both, left.both);
    if (p_.goal == objective::bottleneck) it.bound = larger(it.total, it.both);
    else
      it.bound = it.sum + left.both + (p_.micro_batches - 1) * (with_mean(it.max.forward, left.forward) +
                                                                with_mean(it.max.backward, left.backward));
  }

  /// Writes a partial cut; all slots before it are one stage.
  constexpr void follow(int i, int* first) const {
    for (int s = 0; s < all_[i].stage; ++s) first[s] = 0;
    for (; i >= 0; i = all_[i].behind) first[all_[i].stage] = all_[i].begin;
  }

  /// Whether the partial cut in `first_` may grow now; else it is dropped, or queued again by its bytes.
  GPIPE_COLD constexpr bool check_memory(int i) {
    partial& it = all_[i];
    const memory_requirements& needs = needs_[it.stage];
    const std::int64_t bytes = bytes_of(it.stage);
    it.checked = true;
    it.certain = all_[it.behind].certain;
    if (it.certain && it.stage > 1 && needs.stash.skip > needs.stash.next) {  // if the stage before is one slot
      first_[it.stage - 1] = it.begin - 1;
      const std::int64_t max = bytes_of(it.stage);
      first_[it.stage - 1] = 0;
      it.certain = by_bytes() ? max <= larger(bytes, it.bytes) : max <= limit_;
    }
    it.bytes = larger(it.bytes, bytes);
    if (!by_bytes()) return bytes <= limit_;
    if (it.bytes > it.bound) {
      it.bound = it.bytes;
      queue(i);
      return false;
    }
    return true;
  }

  constexpr std::int64_t bytes_of(int stage) const {
    return memory_of(stage_view(net_, {first_.data(), p_.stages}, stage), needs_[stage]).total();
  }

  /// The same for a whole cut in `first_`.
  GPIPE_COLD constexpr bool measured(int i) {
    partial& it = all_[i];
    std::int64_t max = 0;
    for (int s = 0; s < p_.stages; ++s) max = larger(max, bytes_of(s));
    it.certain = true;
    if (!by_bytes()) return max <= limit_;
    if (max <= it.bytes) return true;
    it.bytes = it.bound = max;
    queue(i);
    return false;
  }

  /// Whether another partial cut from the same slot is as good in every respect, with as few gradients of the values
  /// written before. If not, the one in `first_` is settled.
  GPIPE_COLD constexpr bool dominated(int i) {
    partial& it = all_[i];
    int& head = settled_[it.stage * (p_.slots + 1) + it.begin];
    for (int j = head - 1; j >= 0; j = all_[j].before) {
      const partial& other = all_[j];
      const bool as_good = by_bytes() ? other.bytes <= it.bytes
                           : p_.goal == objective::bottleneck
                               ? other.total <= it.total && other.max.both <= it.max.both
                               : other.sum <= it.sum && other.max.forward <= it.max.forward &&
                                     other.max.backward <= it.max.backward && other.max.both <= it.max.both;
      if (other.certain && as_good && has_no_more_gradients(j, it)) return true;
    }
    it.before = head - 1;
    head = i + 1;
    return false;
  }
  constexpr bool has_no_more_gradients(int j, const partial& it) {
    if (shared_count_ == 0) return true;
    follow(j, other_.data());
    // As the slot before sees them.
    first_[it.stage - 1] = other_[it.stage - 1] = it.begin - 1;
    const stage_view mine(net_, {first_.data(), p_.stages}, it.stage - 1);
    const stage_view others(net_, {other_.data(), p_.stages}, it.stage - 1);
    for (int k = 0; k < shared_count_; ++k) {
      const int v = shared_[k];
      const value& of = net_.values[v];
      if (of.writer < it.begin && net_.reader(v, of.readers - 1) >= it.begin &&
          (others.returns(v) > mine.returns(v) || skipping(others, v) > skipping(mine, v)))
        return false;
    }
    return true;
  }
  /// Gradients of a value that return from behind the next stage.
  static constexpr int skipping(const stage_view& stage, int v) {
    int count = 0;
    for (int k = 0; k < stage.returns(v); ++k) count += !stage.returned_by_next(v, k);
    return count;
  }

  /// Adds every possible stage before; false: too many.
  GPIPE_COLD constexpr bool grow(int behind) {
    const int end = all_[behind].begin, stage = all_[behind].stage - 1;
    const slot_cost* costs = p_.costs_on(stage);
    load held{};
    for (int begin = end - 1; begin >= stage; --begin) {
      held.forward += costs[begin].forward;
      held.backward += costs[begin].backward;
      held.both += costs[begin].forward + costs[begin].backward;
      if (begin > 0 ? stage == 0 : stage > 0) continue;
      if (count_ == max_partials) return false;
      transfer_charges::running_charge charges(moved_, begin);
      for (int l = begin; moved_.any() && l < end; ++l) charges.add(l);
      const partial& from = all_[behind];
      partial it{stage, begin, behind, false, false,
                 {larger(held.forward, from.max.forward), larger(held.backward, from.max.backward),
                  larger(held.both, from.max.both)},
                 from.sum + held.both, larger(held.both + charges.charge(), from.total), from.bytes};
      if (by_bytes()) it.bound = from.bytes;
      else bound(it);
      push(it);
    }
    return true;
  }

  // A heap; among equals the one with fewer stages left is first.
  constexpr bool sooner(int i, int j) const {
    const partial &a = all_[i], &b = all_[j];
    if (a.bound != b.bound) return a.bound < b.bound;
    if (a.both != b.both) return a.both < b.both;
    return a.stage < b.stage;
  }
  constexpr void push(const partial& it) {
    if (count_ == capacity_) {
      const int capacity = capacity_ == 0 ? 256 : 2 * capacity_;
      partial* more = new partial[static_cast<unsigned>(capacity)];
      int* heap = new int[static_cast<unsigned>(capacity)]{};
      for (int i = 0; i < count_; ++i) more[i] = all_[i];
      for (int i = 0; i < queued_; ++i) heap[i] = heap_[i];
      delete[] all_;
      delete[] heap_;
      all_ = more, heap_ = heap, capacity_ = capacity;
    }
    all_[count_] = it;
    queue(count_++);
  }
  constexpr void queue(int i) {
    int at = queued_++;
    for (; at > 0 && sooner(i, heap_[(at - 1) / 2]); at = (at - 1) / 2) heap_[at] = heap_[(at - 1) / 2];
    heap_[at] = i;
  }
  constexpr int pop() {
    const int first = heap_[0], last = heap_[--queued_];
    int at = 0;
    for (int below = 1; below < queued_; below = 2 * at + 1) {
      if (below + 1 < queued_ && sooner(heap_[below + 1], heap_[below])) ++below;
      if (!sooner(heap_[below], last)) break;
      heap_[at] = heap_[below];
      at = below;
    }
    heap_[at] = last;
    return first;
  }

  const partition_problem& p_;
  const network& net_;
  const memory_requirements* needs_;
  std::int64_t limit_, bytes_ = 0;
  transfer_charges moved_;
  zeroed_array<load> min_;     // of the slots before, each on its cheapest device
  zeroed_array<int> settled_;  // [stage][begin]: the last one, counted from 1
  zeroed_array<int> shared_;   // values with readers in several slots
  zeroed_array<int> first_, other_;
  partial* all_ = nullptr;
  int* heap_ = nullptr;
  int count_ = 0, queued_ = 0, capacity_ = 0, shared_count_ = 0;
};

}  // namespace gpipe::detail
