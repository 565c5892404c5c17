#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/partition/objective.hpp>
#include <gpipe/plan/partition/range_sums.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// The result of a search that looks at a limited number of partial cuts.
enum class answer : std::uint8_t { found, none, unknown };

/// Finds the best cut whose stages obey their memory limits, or the cut that exceeds them by the fewest bytes per
/// stage.
///
/// The number of gradients that return to a stage depends on the cuts after it. So partial cuts grow from the last
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
/// With recompute as needed, or of listed layers, the time of a stage depends on its recomputes, and these on its
/// memory. Until they are decided, the bound assumes that everything is kept.
class memory_limited_cut {
 public:
  static constexpr int max_partials = 1 << 15, max_path_elements = 1 << 22;

  enum class goal : std::uint8_t {
    objective,  ///< every stage obeys its limit
    bytes,      ///< no cut obeys the limits
  };

  /// `limits` has one element per stage. The problem has been solved without limits before. `recompute`, unless null,
  /// decides what the stages recompute; then the problem's costs run nothing again.
  constexpr memory_limited_cut(const partition_problem& p, const network& net, const memory_requirements* needs,
                               const std::int64_t* limits, goal wanted, recompute_search* recompute = nullptr)
      : p_(p),
        net_(net),
        needs_(needs),
        limits_(limits),
        by_bytes_(wanted == goal::bytes),
        recompute_(recompute),
        path_(recompute != nullptr && p.goal == gpipe::objective::fill_drain ? p.micro_batches : 1),
        whole_path_(path_.size()),
        moved_(p),
        min_(p.layers + 1),
        settled_(p.stages * (p.layers + 1)),
        shared_(net.value_count),
        first_(p.stages),
        rival_first_(p.stages) {
    sum_min();
    for (int v = 0; v < net.value_count; ++v)
      if (const value& value = net.values[v]; value.gradient && value.readers > 0 && value.writer >= 0 &&
                                              net.reader(v, value.readers - 1) > value.writer + 1)
        shared_[shared_count_++] = v;
  }
  constexpr ~memory_limited_cut() {
    delete[] partials_;
    delete[] heap_;
    delete[] paths_;
  }
  memory_limited_cut(const memory_limited_cut&) = delete;
  memory_limited_cut& operator=(const memory_limited_cut&) = delete;

  GPIPE_COLD constexpr answer find(int* first) {
    if (recompute_ != nullptr) add_path();
    push({.stage = p_.stages, .begin = p_.layers, .checked = true, .certain = true});
    while (queued_ > 0) {
      const int i = pop();
      follow(i, first_.data());
      if (!partials_[i].checked && !check_memory(i)) continue;
      if (partials_[i].stage == 0 && !partials_[i].certain && !measured(i)) continue;
      const partial best = partials_[i];
      if (best.stage == 0) {
        for (int s = 0; s <= p_.stages; ++s) first[s] = first_[s];
        bytes_ = best.bytes;
        bound_ = best.bound;
        return answer::found;
      }
      if (best.stage < p_.stages && dominated(i)) continue;
      if (!grow(i)) {
        bound_ = best.bound;
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
      const partial later_stages = whole;
      load held{};
      for (int l = first_[s]; l < first_[s + 1]; ++l) add_layer(held, s, l);
      whole = with_stage(later_stages, s, first_[s], held);
      const stage_recompute decided = recompute_->decide(first_.data(), s, limits_[s]);
      if (!decided.fits) return unlimited;
      add_recompute(whole, later_stages, decided, whole_path_.data(), whole_path_.data());
    }
    if (p_.goal == objective::bottleneck) return whole.total;
    return whole.turn + (p_.micro_batches - 1) * whole.max.forward + whole_path_[path_.size() - 1];
  }

 private:
  struct partial {
    int stage = 0, begin = 0;
    int parent = -1;                              ///< the partial cut without its first stage
    bool checked = false;                         ///< its first stage obeys its limit, or its bytes count
    bool certain = false;                         ///< so do all its stages, for any cut before
    load max{};                                   ///< of its stages
    std::int64_t turn = 0, total = 0, bytes = 0;  ///< the two sums of `objective_of`, the bottleneck, the excess
    std::int64_t bound = 0, both = 0;  ///< no cut that ends like this has a smaller objective, nor f + b of a stage
    int settled_before = -1;           ///< the cut settled before at the same (stage, begin)
    load first{};                      ///< of its first stage
    std::int64_t moved = 0;            ///< likewise: its transfers
    int path = 0;                      ///< the longest path of its first checked stage
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
        if (c.forward + c.backward - c.recompute < once) once = c.forward + c.backward - c.recompute;
      }
      min_[l + 1] = {min_[l].forward + min.forward, min_[l].backward + min.backward, min_[l].both + min.both,
                     min_[l].recompute + min.both - once};
    }
  }

  constexpr void bound(partial& candidate) const {
    const load& left = min_[candidate.begin];
    const auto with_mean = [&candidate](std::int64_t max, std::int64_t remaining) {
      return candidate.stage == 0 ? max : larger(max, remaining / candidate.stage + (remaining % candidate.stage != 0));
    };
    candidate.both = with_mean(candidate.max.both, left.both);
    if (p_.goal == objective::bottleneck) {
      candidate.bound = larger(candidate.total, candidate.both);
      return;
    }
    const std::int64_t periods = p_.micro_batches - 1, backward = with_mean(candidate.max.backward, left.backward);
    candidate.bound = candidate.turn + left.once() + periods * with_mean(candidate.max.forward, left.forward) +
                      (recompute_ != nullptr ? path_.shortest(path_of(candidate.path), backward_before(candidate))
                                             : periods * backward);
  }
  /// A lower bound of the largest backward among the stages that have no path yet.
  constexpr std::int64_t backward_before(const partial& candidate) const {
    const std::int64_t remaining = min_[candidate.begin].backward;
    const std::int64_t mean =
        candidate.stage == 0 ? 0 : remaining / candidate.stage + (remaining % candidate.stage != 0);
    return candidate.checked ? mean : larger(mean, candidate.first.backward);
  }

  /// Writes a partial cut; all layers before it are one stage.
  constexpr void follow(int i, int* first) const {
    for (int s = 0; s < partials_[i].stage; ++s) first[s] = 0;
    for (; i >= 0; i = partials_[i].parent) first[partials_[i].stage] = partials_[i].begin;
  }

  /// Whether the partial cut in `first_` may grow; else it is dropped, or queued again by its bytes.
  GPIPE_COLD constexpr bool check_memory(int i) {
    partial& candidate = partials_[i];
    const memory_requirements& needs = needs_[candidate.stage];
    const bool decides = recompute_ != nullptr && !by_bytes_;
    const std::int64_t limit = limits_[candidate.stage];
    const stage_recompute decided =
        decides ? recompute_->decide(first_.data(), candidate.stage, limit) : stage_recompute{};
    const std::int64_t above = (decides ? decided.bytes : bytes_of(candidate.stage)) - limit;
    candidate.checked = true;
    candidate.certain = partials_[candidate.parent].certain;
    if (candidate.certain && candidate.stage > 1 &&
        needs.stash.skip > needs.stash.next) {  // if the stage before is one layer
      first_[candidate.stage - 1] = candidate.begin - 1;
      if (decides) {
        const stage_recompute at_most = recompute_->decide(first_.data(), candidate.stage, limit);
        candidate.certain = at_most.fits && at_most.time == decided.time && at_most.early == decided.early &&
                            at_most.working_sets == decided.working_sets;
      } else {
        const std::int64_t max = bytes_of(candidate.stage) - limit;
        candidate.certain = max <= (by_bytes_ ? larger(above, candidate.bytes) : 0);
      }
      first_[candidate.stage - 1] = 0;
    }
    candidate.bytes = larger(candidate.bytes, above);
    if (decides) return decided.fits && takes_as_long(i, decided);
    if (!by_bytes_) return above <= 0;
    if (candidate.bytes > candidate.bound) {
      candidate.bound = candidate.bytes;
      queue(i);
      return false;
    }
    return true;
  }

  constexpr std::int64_t bytes_of(int stage) const {
    if (recompute_ != nullptr) return recompute_->least_bytes(first_.data(), stage);
    return memory_of(stage_view(net_, {first_.data(), p_.stages}, stage), needs_[stage]).total();
  }

  // The longest paths of checked stages, one array after the other; the first array belongs to no stage.
  constexpr std::int64_t* path_of(int path) const { return paths_ + std::int64_t{path} * path_.size(); }
  constexpr void add_path() {
    if (path_count_ == path_capacity_) {
      path_capacity_ = path_capacity_ == 0 ? 64 : 2 * path_capacity_;
      std::int64_t* paths =
          new std::int64_t[static_cast<std::size_t>(path_capacity_) * static_cast<std::size_t>(path_.size())]{};
      for (std::int64_t k = 0; k < std::int64_t{path_count_} * path_.size(); ++k) paths[k] = paths_[k];
      delete[] paths_;
      paths_ = paths;
    }
    ++path_count_;
  }
  /// Adds the recomputes of its first stage to a partial cut.
  ///
  /// By layer, every backward takes longer by the recomputes of a micro-batch, and the `early` ones run before its
  /// gradient arrives; see `objective_of`.
  constexpr void add_recompute(partial& candidate, const partial& parent, const stage_recompute& decided,
                               const std::int64_t* parent_path, std::int64_t* path) const {
    const std::int64_t per_micro_batch = decided.time / p_.micro_batches + (decided.time % p_.micro_batches != 0);
    const std::int64_t recompute = decided.by_layer ? per_micro_batch : 0, early = decided.early;
    candidate.total = larger(candidate.first.both + per_micro_batch + candidate.moved, parent.total);
    candidate.turn = candidate.first.both + recompute - early + larger(early, parent.turn);
    path_.extend(parent_path, candidate.first.forward, candidate.first.backward + recompute,
                 decided.by_layer ? p_.micro_batches : decided.working_sets, path);
  }
  /// Whether a newly checked partial cut in `first_` keeps its bound; else it is queued again.
  GPIPE_COLD constexpr bool takes_as_long(int i, const stage_recompute& decided) {
    add_path();
    partial& candidate = partials_[i];
    add_recompute(candidate, partials_[candidate.parent], decided, path_of(candidate.path), path_of(path_count_ - 1));
    candidate.path = path_count_ - 1;
    const std::int64_t before = candidate.bound;
    bound(candidate);
    if (candidate.bound <= before) return true;
    queue(i);
    return false;
  }

  /// The same for a whole cut in `first_`.
  GPIPE_COLD constexpr bool measured(int i) {
    partial& candidate = partials_[i];
    if (recompute_ != nullptr && !by_bytes_) {
      candidate.certain = true;
      const std::int64_t exact = objective_within(first_.data()), before = candidate.bound;
      if (exact == unlimited || exact == before) return exact == before;
      candidate.bound = exact;
      queue(i);
      return false;
    }
    std::int64_t max = 0;
    for (int s = 0; s < p_.stages; ++s) max = larger(max, bytes_of(s) - limits_[s]);
    candidate.certain = true;
    if (!by_bytes_) return max <= 0;
    if (max <= candidate.bytes) return true;
    candidate.bytes = candidate.bound = max;
    queue(i);
    return false;
  }

  /// Whether another partial cut from the same layer is as good in every respect, with as few gradients of the values
  /// written before. If not, the cut in `first_` is settled.
  GPIPE_COLD constexpr bool dominated(int i) {
    partial& candidate = partials_[i];
    int& head = settled_[candidate.stage * (p_.layers + 1) + candidate.begin];
    for (int j = head - 1; j >= 0; j = partials_[j].settled_before) {
      const partial& rival = partials_[j];
      const bool as_good = by_bytes_ ? rival.bytes <= candidate.bytes
                           : p_.goal == objective::bottleneck
                               ? rival.total <= candidate.total && rival.max.both <= candidate.max.both
                               : rival.turn <= candidate.turn && rival.max.forward <= candidate.max.forward &&
                                     rival.max.both <= candidate.max.both && no_longer_backward(rival, candidate);
      if (rival.certain && as_good && has_no_more_gradients(j, candidate)) return true;
    }
    candidate.settled_before = head - 1;
    head = i + 1;
    return false;
  }
  constexpr bool no_longer_backward(const partial& rival, const partial& candidate) const {
    if (recompute_ == nullptr) return rival.max.backward <= candidate.max.backward;
    for (int j = 0; j < path_.size(); ++j)
      if (path_of(rival.path)[j] > path_of(candidate.path)[j]) return false;
    return true;
  }
  constexpr bool has_no_more_gradients(int j, const partial& candidate) {
    if (shared_count_ == 0) return true;
    follow(j, rival_first_.data());
    // As the layer before sees them.
    first_[candidate.stage - 1] = rival_first_[candidate.stage - 1] = candidate.begin - 1;
    const stage_view view(net_, {first_.data(), p_.stages}, candidate.stage - 1);
    const stage_view rival_view(net_, {rival_first_.data(), p_.stages}, candidate.stage - 1);
    for (int k = 0; k < shared_count_; ++k) {
      const int v = shared_[k];
      const value& value = net_.values[v];
      if (value.writer < candidate.begin && net_.reader(v, value.readers - 1) >= candidate.begin &&
          (rival_view.returns(v) > view.returns(v) || skipping(rival_view, v) > skipping(view, v)))
        return false;
    }
    return true;
  }
  /// Gradients of a value that return from stages after the next one.
  static constexpr int skipping(const stage_view& stage, int v) {
    int count = 0;
    for (int k = 0; k < stage.returns(v); ++k) count += !stage.returned_by_next(v, k);
    return count;
  }

  /// Adds every possible stage before; false: too many.
  GPIPE_COLD constexpr bool grow(int parent) {
    const int end = partials_[parent].begin, stage = partials_[parent].stage - 1;
    load held{};
    for (int begin = end - 1; begin >= stage; --begin) {
      add_layer(held, stage, begin);
      if (begin > 0 ? stage == 0 : stage > 0) continue;
      if (count_ == max_partials || std::int64_t{path_count_} * path_.size() > max_path_elements) return false;
      partial extended = with_stage(partials_[parent], stage, begin, held);
      extended.parent = parent;
      if (by_bytes_) extended.bound = extended.bytes;
      else bound(extended);
      push(extended);
    }
    return true;
  }
  constexpr void add_layer(load& sum, int stage, int layer) const {
    const pass_cost& cost = p_.costs_on(stage)[layer];
    sum.forward += cost.forward;
    sum.backward += cost.backward;
    sum.both += cost.forward + cost.backward;
    sum.recompute += cost.recompute;
  }
  /// A partial cut with the stage before, which recomputes nothing beyond the problem's costs.
  constexpr partial with_stage(const partial& parent, int stage, int begin, const load& held) const {
    transfer_charges::running_charge charges(moved_, begin);
    for (int l = begin; moved_.any() && l < parent.begin; ++l) charges.add(l);
    partial extended{.stage = stage, .begin = begin, .bytes = parent.bytes, .first = held, .moved = charges.charge()};
    extended.max = {larger(held.forward, parent.max.forward), larger(held.backward, parent.max.backward),
                    larger(held.both, parent.max.both)};
    extended.turn = held.once() + larger(p_.recomputes_first ? held.recompute : 0, parent.turn);
    extended.total = larger(held.both + extended.moved, parent.total);
    extended.path = parent.path;
    return extended;
  }

  // A heap; among equals the one with fewer stages left is first.
  constexpr bool sooner(int i, int j) const {
    const partial &a = partials_[i], &b = partials_[j];
    if (a.bound != b.bound) return a.bound < b.bound;
    if (a.both != b.both) return a.both < b.both;
    return a.stage < b.stage;
  }
  constexpr void push(const partial& candidate) {
    if (count_ == capacity_) {
      const int capacity = capacity_ == 0 ? 256 : 2 * capacity_;
      partial* partials = new partial[static_cast<unsigned>(capacity)];
      int* heap = new int[static_cast<unsigned>(capacity)]{};
      for (int i = 0; i < count_; ++i) partials[i] = partials_[i];
      for (int i = 0; i < queued_; ++i) heap[i] = heap_[i];
      delete[] partials_;
      delete[] heap_;
      partials_ = partials, heap_ = heap, capacity_ = capacity;
    }
    partials_[count_] = candidate;
    queue(count_++);
  }
  constexpr void queue(int i) {
    int position = queued_++;
    for (; position > 0 && sooner(i, heap_[(position - 1) / 2]); position = (position - 1) / 2)
      heap_[position] = heap_[(position - 1) / 2];
    heap_[position] = i;
  }
  constexpr int pop() {
    const int first = heap_[0], last = heap_[--queued_];
    int position = 0;
    for (int below = 1; below < queued_; below = 2 * position + 1) {
      if (below + 1 < queued_ && sooner(heap_[below + 1], heap_[below])) ++below;
      if (!sooner(heap_[below], last)) break;
      heap_[position] = heap_[below];
      position = below;
    }
    heap_[position] = last;
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
  zeroed_array<int> first_, rival_first_;
  partial* partials_ = nullptr;
  int* heap_ = nullptr;
  std::int64_t* paths_ = nullptr;
  int path_count_ = 0, path_capacity_ = 0;
  int count_ = 0, queued_ = 0, capacity_ = 0, shared_count_ = 0;
};

}  // namespace gpipe::detail
