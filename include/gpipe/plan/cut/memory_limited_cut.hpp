#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/partition/backward_path.hpp>
#include <gpipe/plan/partition/objective.hpp>
#include <gpipe/plan/partition/range_sums.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// The result of a search that looks at a limited number of partial cuts.
enum class answer : std::uint8_t { found, none, unknown };

/// Finds the best cut whose stages obey their memory limits, or the cut that exceeds them by the fewest bytes a stage.
///
/// The number of gradients that return to a stage depends on the cuts behind it. So partial cuts grow from the last
/// stage on, best first (A*; Hart, Nilsson and Raphael, 1968): by a lower bound of the whole cut, in which the layers
/// before are shared out evenly. Only the first in this order is checked for memory.
///
///     0 ...       begin
///     [ still free ][  stage s  ][  s + 1  ] ... ]
///
/// An input of a stage takes more slots if it skips the stage before, whose cut is not known yet. A stage passes as if
/// no input did; it is *certain* if it obeys the limit even if every possible input does. A whole cut that is not
/// certain is measured again.
///
/// With recompute as needed, or of listed layers, the time of a stage depends on what it recomputes, and that on its
/// memory. Until this is decided, the bound assumes that all is kept.
class limited_search {
 public:
  static constexpr int max_partials = 1 << 15, max_path_elements = 1 << 22;

  enum class goal : std::uint8_t {
    objective,  ///< every stage obeys its limit
    bytes,      ///< no cut obeys the limits
  };

  /// `limits` has one for each stage. The problem has been solved without limits before. `recompute`, unless null,
  /// decides what the stages recompute; then the problem's costs run nothing again.
  constexpr limited_search(const partition_problem& p, const network& net, const memory_requirements* needs,
                           const std::int64_t* limits, goal what, recompute_search* recompute = nullptr)
      : p_(p),
        net_(net),
        needs_(needs),
        limits_(limits),
        by_bytes_(what == goal::bytes),
        recompute_(recompute),
        path_(recompute != nullptr && p.goal == gpipe::objective::fill_drain ? p.micro_batches : 1),
        whole_path_(path_.size()),
        moved_(p),
        min_(p.layers + 1),
        settled_(p.stages * (p.layers + 1)),
        shared_(net.value_count),
        first_(p.stages),
        other_(p.stages) {
    sum_min();
    for (int v = 0; v < net.value_count; ++v)
      if (const value& of = net.values[v];
          of.gradient && of.readers > 0 && of.writer >= 0 && net.reader(v, of.readers - 1) > of.writer + 1)
        shared_[shared_count_++] = v;
  }
  constexpr ~limited_search() {
    delete[] all_;
    delete[] heap_;
    delete[] paths_;
  }
  limited_search(const limited_search&) = delete;
  limited_search& operator=(const limited_search&) = delete;

  GPIPE_COLD constexpr answer find(int* first) {
    if (recompute_ != nullptr) add_path();
    push({.stage = p_.stages, .begin = p_.layers, .checked = true, .certain = true});
    while (queued_ > 0) {
      const int i = pop();
      follow(i, first_.data());
      if (!all_[i].checked && !check_memory(i)) continue;
      if (all_[i].stage == 0 && !all_[i].certain && !measured(i)) continue;
      const partial it = all_[i];
      if (it.stage == 0) {
        for (int s = 0; s <= p_.stages; ++s) first[s] = first_[s];
        bytes_ = it.bytes;
        bound_ = it.bound;
        return answer::found;
      }
      if (it.stage < p_.stages && dominated(i)) continue;
      if (!grow(i)) {
        bound_ = it.bound;
        return answer::unknown;
      }
    }
    return answer::none;
  }
  /// The most bytes by which a stage of the cut that was found exceeds its limit.
  constexpr std::int64_t bytes() const { return bytes_; }
  /// The objective of the cut that was found; if the answer is unknown, no cut that obeys the limit has a smaller one.
  constexpr std::int64_t bound() const { return bound_; }

  /// The objective of any cut as this search counts it; `unlimited` if it does not obey the limit.
  GPIPE_COLD constexpr std::int64_t objective_within(const int* first) {
    for (int s = 0; s <= p_.stages; ++s) first_[s] = first[s];
    if (recompute_ == nullptr) {
      for (int s = 0; s < p_.stages; ++s)
        if (bytes_of(s) > limits_[s]) return unlimited;
      return objective_of(p_, first);
    }
    partial whole{.stage = p_.stages, .begin = p_.layers};
    for (int j = 0; j < path_.size(); ++j) whole_path_[j] = 0;
    for (int s = p_.stages - 1; s >= 0; --s) {
      const partial behind = whole;
      load held{};
      for (int l = first_[s]; l < first_[s + 1]; ++l) add_layer(held, s, l);
      whole = with_stage(behind, s, first_[s], held);
      const stage_recompute decided = recompute_->decide(first_.data(), s, limits_[s]);
      if (!decided.fits) return unlimited;
      add_recompute(whole, behind, decided, whole_path_.data(), whole_path_.data());
    }
    if (p_.goal == objective::bottleneck) return whole.total;
    return whole.turn + (p_.micro_batches - 1) * whole.max.forward + whole_path_[path_.size() - 1];
  }

 private:
  struct partial {
    int stage = 0, begin = 0, behind = -1;
    bool checked = false;                         ///< its first stage obeys its limit, or its bytes count
    bool certain = false;                         ///< so do all its stages, for any cut before
    load max{};                                   ///< of a stage
    std::int64_t turn = 0, total = 0, bytes = 0;  ///< the two sums of `objective_of`, the bottleneck, the excess
    std::int64_t bound = 0, both = 0;  ///< no cut that ends like this has a smaller objective, nor f + b of a stage
    int before = -1;                   ///< the one settled before at the same (stage, begin)
    load first{};                      ///< of its first stage
    std::int64_t moved = 0;            ///< likewise: its transfers
    int path = 0;                      ///< of its first stage that is checked
  };

  static constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

  constexpr void sum_min() {
    for (int l = 0; l < p_.layers; ++l) {
      load min{unlimited, unlimited, unlimited, 0};
      std::int64_t once = unlimited;
      for (int s = 0; s < (p_.kinds > 1 ? p_.stages : 1); ++s) {
        const pass_cost& c = p_.costs_on(s)[l];
        if (c.forward < min.forward) min.forward = c.forward;
        if (c.backward < min.backward) min.backward = c.backward;
        if (c.forward + c.backward < min.both) min.both = c.forward + c.backward;
        if (c.forward + c.backward - c.again < once) once = c.forward + c.backward - c.again;
      }
      min_[l + 1] = {min_[l].forward + min.forward, min_[l].backward + min.backward, min_[l].both + min.both,
                     min_[l].again + min.both - once};
    }
  }

  constexpr void bound(partial& it) const {
    const load& left = min_[it.begin];
    const auto with_mean = [&it](std::int64_t max, std::int64_t rest) {
      return it.stage == 0 ? max : larger(max, rest / it.stage + (rest % it.stage != 0));
    };
    it.both = with_mean(it.max.both, left.both);
    if (p_.goal == objective::bottleneck) {
      it.bound = larger(it.total, it.both);
      return;
    }
    const std::int64_t periods = p_.micro_batches - 1, backward = with_mean(it.max.backward, left.backward);
    it.bound = it.turn + left.once() + periods * with_mean(it.max.forward, left.forward) +
               (recompute_ != nullptr ? path_.shortest(path_of(it.path), backward_before(it)) : periods * backward);
  }
  /// A lower bound of the largest backward among the stages that have no path yet.
  constexpr std::int64_t backward_before(const partial& it) const {
    const std::int64_t rest = min_[it.begin].backward;
    const std::int64_t mean = it.stage == 0 ? 0 : rest / it.stage + (rest % it.stage != 0);
    return it.checked ? mean : larger(mean, it.first.backward);
  }

  /// Writes a partial cut; all layers before it are one stage.
  constexpr void follow(int i, int* first) const {
    for (int s = 0; s < all_[i].stage; ++s) first[s] = 0;
    for (; i >= 0; i = all_[i].behind) first[all_[i].stage] = all_[i].begin;
  }

  /// Whether the partial cut in `first_` may grow now; else it is dropped, or queued again by its bytes.
  GPIPE_COLD constexpr bool check_memory(int i) {
    partial& it = all_[i];
    const memory_requirements& needs = needs_[it.stage];
    const bool decides = recompute_ != nullptr && !by_bytes_;
    const std::int64_t limit = limits_[it.stage];
    const stage_recompute decided = decides ? recompute_->decide(first_.data(), it.stage, limit) : stage_recompute{};
    const std::int64_t above = (decides ? decided.bytes : bytes_of(it.stage)) - limit;
    it.checked = true;
    it.certain = all_[it.behind].certain;
    if (it.certain && it.stage > 1 && needs.stash.skip > needs.stash.next) {  // if the stage before is one layer
      first_[it.stage - 1] = it.begin - 1;
      if (decides) {
        const stage_recompute at_most = recompute_->decide(first_.data(), it.stage, limit);
        it.certain = at_most.fits && at_most.time == decided.time && at_most.early == decided.early &&
                     at_most.working_sets == decided.working_sets;
      } else {
        const std::int64_t max = bytes_of(it.stage) - limit;
        it.certain = max <= (by_bytes_ ? larger(above, it.bytes) : 0);
      }
      first_[it.stage - 1] = 0;
    }
    it.bytes = larger(it.bytes, above);
    if (decides) return decided.fits && takes_as_long(i, decided);
    if (!by_bytes_) return above <= 0;
    if (it.bytes > it.bound) {
      it.bound = it.bytes;
      queue(i);
      return false;
    }
    return true;
  }

  constexpr std::int64_t bytes_of(int stage) const {
    if (recompute_ != nullptr) return recompute_->least_bytes(first_.data(), stage);
    return memory_of(stage_view(net_, {first_.data(), p_.stages}, stage), needs_[stage]).total();
  }

  // The longest paths of stages that are checked, one array after the other; the first is that of no stage.
  constexpr std::int64_t* path_of(int path) const { return paths_ + std::int64_t{path} * path_.size(); }
  constexpr void add_path() {
    if (path_count_ == path_capacity_) {
      path_capacity_ = path_capacity_ == 0 ? 64 : 2 * path_capacity_;
      std::int64_t* more =
          new std::int64_t[static_cast<std::size_t>(path_capacity_) * static_cast<std::size_t>(path_.size())]{};
      for (std::int64_t k = 0; k < std::int64_t{path_count_} * path_.size(); ++k) more[k] = paths_[k];
      delete[] paths_;
      paths_ = more;
    }
    ++path_count_;
  }
  /// Adds to a partial cut what its first stage recomputes.
  ///
  /// By layer every backward takes longer by the recomputes of a micro-batch, of which r run before its gradient
  /// arrives; see `objective_of`.
  constexpr void add_recompute(partial& it, const partial& behind, const stage_recompute& decided,
                               const std::int64_t* path_behind, std::int64_t* path) const {
    const std::int64_t each = decided.time / p_.micro_batches + (decided.time % p_.micro_batches != 0);
    const std::int64_t again = decided.by_layer ? each : 0, r = decided.early;
    it.total = larger(it.first.both + each + it.moved, behind.total);
    it.turn = it.first.both + again - r + larger(r, behind.turn);
    path_.extend(path_behind, it.first.forward, it.first.backward + again,
                 decided.by_layer ? p_.micro_batches : decided.working_sets, path);
  }
  /// Whether a partial cut in `first_` that is checked now has the bound that it had; else it is queued again.
  GPIPE_COLD constexpr bool takes_as_long(int i, const stage_recompute& decided) {
    add_path();
    partial& it = all_[i];
    add_recompute(it, all_[it.behind], decided, path_of(it.path), path_of(path_count_ - 1));
    it.path = path_count_ - 1;
    const std::int64_t before = it.bound;
    bound(it);
    if (it.bound <= before) return true;
    queue(i);
    return false;
  }

  /// The same for a whole cut in `first_`.
  GPIPE_COLD constexpr bool measured(int i) {
    partial& it = all_[i];
    if (recompute_ != nullptr && !by_bytes_) {
      it.certain = true;
      const std::int64_t exact = objective_within(first_.data()), before = it.bound;
      if (exact == unlimited || exact == before) return exact == before;
      it.bound = exact;
      queue(i);
      return false;
    }
    std::int64_t max = 0;
    for (int s = 0; s < p_.stages; ++s) max = larger(max, bytes_of(s) - limits_[s]);
    it.certain = true;
    if (!by_bytes_) return max <= 0;
    if (max <= it.bytes) return true;
    it.bytes = it.bound = max;
    queue(i);
    return false;
  }

  /// Whether another partial cut from the same layer is as good in every respect, with as few gradients of the values
  /// written before. If not, the one in `first_` is settled.
  GPIPE_COLD constexpr bool dominated(int i) {
    partial& it = all_[i];
    int& head = settled_[it.stage * (p_.layers + 1) + it.begin];
    for (int j = head - 1; j >= 0; j = all_[j].before) {
      const partial& other = all_[j];
      const bool as_good = by_bytes_ ? other.bytes <= it.bytes
                           : p_.goal == objective::bottleneck
                               ? other.total <= it.total && other.max.both <= it.max.both
                               : other.turn <= it.turn && other.max.forward <= it.max.forward &&
                                     other.max.both <= it.max.both && no_longer_backward(other, it);
      if (other.certain && as_good && has_no_more_gradients(j, it)) return true;
    }
    it.before = head - 1;
    head = i + 1;
    return false;
  }
  constexpr bool no_longer_backward(const partial& other, const partial& it) const {
    if (recompute_ == nullptr) return other.max.backward <= it.max.backward;
    for (int j = 0; j < path_.size(); ++j)
      if (path_of(other.path)[j] > path_of(it.path)[j]) return false;
    return true;
  }
  constexpr bool has_no_more_gradients(int j, const partial& it) {
    if (shared_count_ == 0) return true;
    follow(j, other_.data());
    // As the layer before sees them.
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
    load held{};
    for (int begin = end - 1; begin >= stage; --begin) {
      add_layer(held, stage, begin);
      if (begin > 0 ? stage == 0 : stage > 0) continue;
      if (count_ == max_partials || std::int64_t{path_count_} * path_.size() > max_path_elements) return false;
      partial it = with_stage(all_[behind], stage, begin, held);
      it.behind = behind;
      if (by_bytes_) it.bound = it.bytes;
      else bound(it);
      push(it);
    }
    return true;
  }
  constexpr void add_layer(load& to, int stage, int layer) const {
    const pass_cost& cost = p_.costs_on(stage)[layer];
    to.forward += cost.forward;
    to.backward += cost.backward;
    to.both += cost.forward + cost.backward;
    to.again += cost.again;
  }
  /// A partial cut with the stage before, which recomputes nothing beyond the problem's costs.
  constexpr partial with_stage(const partial& from, int stage, int begin, const load& held) const {
    transfer_charges::running_charge charges(moved_, begin);
    for (int l = begin; moved_.any() && l < from.begin; ++l) charges.add(l);
    partial it{.stage = stage, .begin = begin, .bytes = from.bytes, .first = held, .moved = charges.charge()};
    it.max = {larger(held.forward, from.max.forward), larger(held.backward, from.max.backward),
              larger(held.both, from.max.both)};
    it.turn = held.once() + larger(p_.first_again ? held.again : 0, from.turn);
    it.total = larger(held.both + it.moved, from.total);
    it.path = from.path;
    return it;
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
  const std::int64_t* limits_;
  std::int64_t bytes_ = 0, bound_ = 0;
  bool by_bytes_;
  recompute_search* recompute_;
  backward_path path_;
  zeroed_array<std::int64_t> whole_path_;
  transfer_charges moved_;
  zeroed_array<load> min_;     // of the layers before, each on its cheapest device
  zeroed_array<int> settled_;  // [stage][begin]: the last one, counted from 1
  zeroed_array<int> shared_;   // values with readers in several layers
  zeroed_array<int> first_, other_;
  partial* all_ = nullptr;
  int* heap_ = nullptr;
  std::int64_t* paths_ = nullptr;
  int path_count_ = 0, path_capacity_ = 0;
  int count_ = 0, queued_ = 0, capacity_ = 0, shared_count_ = 0;
};

}  // namespace gpipe::detail
