#pragma once

#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/recompute/recomputed_layers.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

namespace gpipe::detail {

/// The recomputes of a stage: whole micro-batches, so that the others keep `working_sets`, or layers of every
/// micro-batch.
struct stage_recompute {
  bool fits = false;  ///< the stage obeys its memory limit
  packed_weights packed = packed_weights::kept;
  bool by_layer = false;
  int working_sets = 1;
  std::int64_t time = 0;   ///< of all recomputes of a step, in picoseconds
  std::int64_t early = 0;  ///< by layer: of a micro-batch's recomputes that run before its gradient arrives
  std::int64_t bytes = 0;  ///< of the stage
  std::int64_t min = 0;    ///< no choice that fits takes less time
};

/// Decides the recomputes of the stages of any cut.
///
/// As needed, a stage takes the recomputes with the least time: whole micro-batches, as few as possible, or layers of
/// every micro-batch, by the knapsack. A point of the knapsack counts the kept bytes; whether the stage obeys its limit
/// with the values that backward writes again is then counted by the layout. If the first point whose kept bytes fit
/// does not obey the limit, a small stage tries all choices that are faster than the first one that does.
///
/// Packed weights need no time at first (see `default_packing`). If the stage does not fit then without recompute, its
/// layers pack on the way: then less is recomputed, or nothing; if both copies fit, too, they are kept. With
/// fewer than `rows_worth_packing` rows packing takes longer than forward, so a stage that may recompute instead does
/// not pack on the way unless the user chooses it.
class recompute_search {
 public:
  static constexpr int max_counts = 32, max_layers_tried = 10;
  /// With as many rows both packs took 0.3 to 0.8 of a product's forward, of weights of 256 to 2,048 columns.
  static constexpr int rows_worth_packing = 64;

  /// `needs`: [stage], with the fewest working sets.
  constexpr recompute_search(const network& net, const plan_options& o, const stage_costs& costs,
                             const memory_requirements* needs)
      : net_(net),
        o_(o),
        costs_(costs),
        needs_(needs),
        table_(o.chosen_schedule(), o.stages, o.micro_batches),
        as_needed_(table_.schedule().trains && o.recompute_whole() == recompute_mode::as_needed),
        listed_(table_.schedule().trains && !o.recompute_layers.empty()),
        marked_(net.layer_count),
        chosen_(net.layer_count),
        before_(net.layer_count),
        before_with_copies_(net.layer_count),
        recomputed_(o.micro_batches),
        sets_(std::is_constant_evaluated() || o.stages * decisions_known >= max_known
                  ? 1
                  : max_known / (o.stages * decisions_known)),
        known_(o.stages * sets_ * decisions_known),
        next_known_(o.stages * sets_) {
    for (int l = 0; l < net.layer_count; ++l) before_[l] = -1;
    if (listed_) mark_layers(net, o.recompute_layers, marked_.data());
  }

  constexpr ~recompute_search() {
    for (int k = 0; k < o_.stages * sets_ * decisions_known; ++k) delete[] known_[k].first;
  }
  recompute_search(const recompute_search&) = delete;
  recompute_search& operator=(const recompute_search&) = delete;

  /// [layer], for the stages that were decided last: see `cut`.
  constexpr const int* before() const { return before_.data(); }

  // change: automatic recompute; layers or whole micro-batches
  /// Decides for a stage of a cut. Without a limit no bytes are counted. The last decisions are stored: most cuts of a
  /// search have stages in common.
  constexpr stage_recompute decide(const int* first, int stage, std::int64_t limit) {
    const int begin = first[stage], end = first[stage + 1], S = o_.stages;
    if (std::is_constant_evaluated() || (!as_needed_ && !listed_)) return decide_anew(first, stage, limit);
    const stage_view current(net_, {first, S}, stage);
    const int set = stage * sets_ + static_cast<int>((std::int64_t{begin} * net_.layer_count + end) % sets_);
    decision* const of_set = known_.data() + set * decisions_known;
    for (int k = 0; k < decisions_known; ++k) {
      const decision& known = of_set[k];
      if (known.first == nullptr || known.limit != limit || known.first[stage] != begin ||
          known.first[stage + 1] != end)
        continue;
      if (!current.matches(stage_view(net_, {known.first, S}, stage))) continue;
      for (int l = begin; l < end; ++l) before_[l] = known.before[l - begin];
      return known.made;
    }
    decision& replaced = of_set[next_known_[set]++ % decisions_known];
    replaced.made = decide_anew(first, stage, limit);
    replaced.limit = limit;
    delete[] replaced.first;
    replaced.first = new int[static_cast<unsigned>(S + 1 + end - begin)];
    replaced.before = replaced.first + S + 1;
    for (int s = 0; s <= S; ++s) replaced.first[s] = first[s];
    for (int l = begin; l < end; ++l) replaced.before[l - begin] = before_[l];
    return replaced.made;
  }
  /// The work so far, in simulated cells: nearly all of it counts the bytes of layers, each as expensive as two cells.
  constexpr std::int64_t work() const { return 2 * counted_; }
  /// The fewest bytes of a stage of a cut.
  constexpr std::int64_t least_bytes(const int* first, int stage) { return decide(first, stage, -1).bytes; }
  /// Bytes that suffice for a stage of a cut: `decide` finds a choice that fits under this limit. As needed they are
  /// the fewer of two choices, to run again all micro-batches or all layers but joins, so another may need fewer still.
  GPIPE_COLD constexpr std::int64_t sufficient_bytes(const int* first, int stage) {
    if (listed_) return least_bytes(first, stage);
    const stage_view plain(net_, {first, o_.stages}, stage);
    stage_ = stage;
    first_ = first;
    memory_requirements few = needs_[stage];  // the fewest working sets
    if (tries_on_the_way()) few.packed = packed_weights::on_the_way;
    if (!as_needed_) return bytes_of(plain, few);
    const memory_requirements full = needs_with(few.packed);
    few.packed = packed_for_recompute(few.packed);
    std::int64_t bytes = bytes_of(plain, few);
    const auto take_if_fewer = [&](std::int64_t candidate) {
      if (candidate < bytes) bytes = candidate;
    };
    if (full.packed != few.packed) take_if_fewer(bytes_of(plain, full));
    if (full.gradients_leave) return bytes;
    mark_all_but_joins();
    place_recomputes(net_, begin(), end(), marked_.data(), chosen_.data());
    take_if_fewer(bytes_of({net_, {first, o_.stages, chosen_.data()}, stage}, needs_with(few.packed)));
    return bytes;
  }

 private:
  // Per set of a stage's ranges of layers, and in all sets: a search of all cuts returns to a few thousand.
  static constexpr int decisions_known = 8, max_known = 1 << 12;
  struct decision {
    int *first = nullptr, *before = nullptr;
    std::int64_t limit = 0;
    stage_recompute made{};
  };

  GPIPE_COLD constexpr stage_recompute decide_anew(const int* first, int stage, std::int64_t limit) {
    const stage_view plain(net_, {first, o_.stages}, stage);
    limit_ = limit;
    stage_ = stage;
    first_ = first;
    const packed_weights by_default = needs_[stage].packed;
    const bool may_pack = tries_on_the_way();
    if (!may_pack || !as_needed_) {
      decide_packed(plain, by_default);
      return best_.fits || !may_pack ? best_ : or_with_less(plain);
    }
    if (keeps_all(plain, by_default)) return best_;
    decide_packed(plain, packed_weights::on_the_way);
    if (best_.time > 0) try_with_copies(plain);
    return best_;
  }
  /// Whether the stage packs on the way where it does not fit otherwise.
  constexpr bool tries_on_the_way() const {
    return needs_[stage_].packed != packed_weights::on_the_way && may_pack_on_the_way(o_, stage_) &&
           (!as_needed_ || is_worth_packing());
  }
  /// The choice in its place if the stage runs micro-batches or layers again: these would need both copies in turn.
  constexpr packed_weights packed_for_recompute(packed_weights packed) const {
    return packed == packed_weights::in_turn && o_.micro_batches > 1 ? packed_weights::kept : packed;
  }
  /// Packs on the way if that fits, or needs fewer bytes.
  constexpr stage_recompute or_with_less(const stage_view& plain) {
    const stage_recompute with_copies = best_;
    for (int l = begin(); l < end(); ++l) before_with_copies_[l] = before_[l];
    decide_packed(plain, packed_weights::on_the_way);
    if (best_.fits || best_.bytes < with_copies.bytes) return best_;
    best_ = with_copies;
    for (int l = begin(); l < end(); ++l) before_[l] = before_with_copies_[l];
    return best_;
  }
  /// Takes the same recompute with both copies, if they fit.
  constexpr void try_with_copies(const stage_view& plain) {
    memory_requirements needs = needs_[stage_];
    needs.packed = packed_weights::kept;
    needs.kept_copies = best_.working_sets;
    const stage_view stage(net_, {first_, o_.stages, before_.data()}, stage_);
    const std::int64_t bytes = bytes_of(best_.by_layer ? stage : plain, needs);
    if (bytes > limit_) return;
    best_.packed = needs.packed;
    best_.bytes = bytes;
  }
  /// Whether the stage's layers take longer to run forward again than to pack on the way.
  constexpr bool is_worth_packing() const {
    std::int64_t elements = 0, products = 0;
    for (int l = begin(); l < end(); ++l) {
      const layer_type& r = net_.type_of(l);
      const auto bytes = static_cast<std::int64_t>(r.derived_bytes(read_by::forward));
      elements += bytes;
      products += multiplied(bytes, r.rows_of_weights(o_.micro_batch_size));
    }
    return products >= rows_worth_packing * elements;
  }

  /// Decides for one choice of packed weights.
  GPIPE_COLD constexpr void decide_packed(const stage_view& plain, packed_weights packed) {
    if (listed_) {
      keep_all();
      place_recomputes(net_, begin(), end(), marked_.data(), chosen_.data());
      const stage_view stage(net_, {first_, o_.stages, chosen_.data()}, stage_);
      packed_ = packed == packed_weights::kept ? default_packing(o_, needs_[stage_], stage) : packed;
      best_ = {};
      best_.working_sets = needs_with(packed_).kept_copies;
      try_marked(needs_with(packed_));
      best_.min = best_.time;
      return;
    }
    if (keeps_all(plain, packed) || !as_needed_) return;
    memory_requirements needs = needs_with(packed);
    const stage_recompute none = best_;
    packed_ = needs.packed = packed_for_recompute(packed);
    recompute_micro_batches(plain);
    best_.min = best_.time;
    if (!needs.gradients_leave)  // which parameter parts that come early would overtake
      recompute_layers(plain, needs);
    if (best_.fits || best_.bytes <= none.bytes) return;
    best_ = none;
    keep_all();
  }

  /// The needs of the stage if it recomputes nothing.
  constexpr memory_requirements needs_with(packed_weights packed) const {
    memory_requirements needs = needs_[stage_];
    needs.packed = packed;
    if (as_needed_ && needs.in_flight > needs.kept_copies) needs.kept_copies = needs.in_flight;
    return needs;
  }
  /// Takes the choice without recompute. Returns whether it fits.
  constexpr bool keeps_all(const stage_view& plain, packed_weights packed) {
    const memory_requirements needs = needs_with(packed);
    keep_all();
    packed_ = packed;
    best_ = {};
    best_.working_sets = needs.kept_copies;
    return take(limit_ == no_memory_limit ? 0 : bytes_of(plain, needs), 0, false);
  }

  constexpr std::int64_t bytes_of(const stage_view& stage, const memory_requirements& needs) {
    counted_ += end() - begin();
    return memory_of(stage, needs).total();
  }

  constexpr int begin() const { return first_[stage_]; }
  constexpr int end() const { return first_[stage_ + 1]; }
  constexpr const layer_cost* costs() const { return costs_.of(stage_); }
  constexpr std::int64_t of_step(std::int64_t time) const { return multiplied(time, o_.micro_batches); }

  constexpr void keep_all() {
    for (int l = begin(); l < end(); ++l) before_[l] = -1;
  }

  /// Takes a choice that fits and is faster, or of those that do not fit the smallest. Returns whether it fits.
  constexpr bool take(std::int64_t bytes, std::int64_t time, bool by_layer) {
    const bool fits = bytes <= limit_;
    const bool better =
        fits ? !best_.fits || time < best_.time : !best_.fits && (best_.bytes == 0 || bytes < best_.bytes);
    if (!better) return fits;
    best_.fits = fits;
    best_.packed = packed_;
    best_.bytes = bytes;
    best_.time = time;
    best_.by_layer = by_layer;
    best_.early = 0;
    if (!by_layer) keep_all();
    return fits;
  }

  /// As many working sets as fit.
  constexpr void recompute_micro_batches(const stage_view& plain) {
    memory_requirements needs = needs_[stage_];
    needs.packed = packed_;
    needs.kept_copies =
        max_working_sets(needs, [&](const memory_requirements& with) { return bytes_of(plain, with) <= limit_; });
    std::int64_t forward = 0;
    for (int l = begin(); l < end(); ++l) forward = summed(forward, costs()[l].forward);
    const int times = drains(table_.schedule(), o_.stages) ? o_.micro_batches - needs.kept_copies
                                                           : count_recomputed(needs.kept_copies);
    best_ = {};
    best_.working_sets = needs.kept_copies;
    take(bytes_of(plain, needs), multiplied(forward, times), false);
  }
  constexpr int count_recomputed(int working_sets) {
    const zeroed_array<int> of_stages(o_.stages);
    of_stages[stage_] = working_sets;
    return flag_recomputed(table_, {recompute_mode::as_needed, of_stages.data()}, stage_, recomputed_.data());
  }

  GPIPE_COLD constexpr void recompute_layers(const stage_view& plain, const memory_requirements& needs) {
    const stage_memory kept = memory_of(plain, needs);
    const std::int64_t other_bytes = kept.before(static_cast<int>(memory_kind::kept)) - kept.of(memory_kind::held);
    const layer_knapsack choices(plain, needs, costs());
    int first = 0;  // the fastest point whose kept bytes fit
    while (limit_ >= 0 && first < choices.points() && other_bytes + choices.bytes(first) > limit_) ++first;
    const std::int64_t fastest = first < choices.points() ? of_step(choices.time(first)) : unlimited;
    best_.min = !choices.whole() ? 0 : best_.fits && best_.time < fastest ? best_.time : fastest;
    if (first == choices.points()) return;
    try_points(choices, needs, first);
    if (best_.fits && best_.time <= best_.min) return;
    if (end() - begin() <= max_layers_tried && choices.whole()) {
      tried_needs_ = &needs;
      choices_ = &choices;
      other_bytes_ = other_bytes;
      try_layers(end() - 1, 0, 0);
      best_.min = best_.time;
    } else {
      const layer_knapsack without_joins(plain, needs, costs(), false);
      try_points(without_joins, needs, 0);
      if (!best_.fits) try_all_but_joins(needs);
    }
  }
  /// Tries the points from `first` on, the fastest first, as long as they are faster than the best choice.
  constexpr void try_points(const layer_knapsack& choices, const memory_requirements& needs, int first) {
    const auto is_faster = [&](int point) { return !best_.fits || of_step(choices.time(point)) < best_.time; };
    const auto try_point = [&](int point) {
      choices.mark(point, marked_.data());
      return try_marked(needs);
    };
    int low = first - 1, high = choices.points() - 1;  // the first does not fit, the last does
    const int counts = end() - begin() <= max_layers_tried ? max_counts : max_counts / 4;
    for (const int last = first + counts / 2; low < high && low + 1 < last && is_faster(low + 1); ++low)
      if (try_point(low + 1)) return;
    while (high > low && !is_faster(high)) --high;
    if (high == low) return;
    // Further on, almost each point needs fewer bytes than the one before.
    if (try_point(high)) {
      while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        (try_point(middle) ? high : low) = middle;
      }
      return;
    }
    for (int i = 0; i < counts; ++i)
      if (const int point = static_cast<int>(std::int64_t{i} * choices.points() / counts);
          point > low && is_faster(point))
        try_point(point);
  }

  /// Runs every layer with one input again: then recomputed values are short-lived.
  constexpr void try_all_but_joins(const memory_requirements& needs) {
    mark_all_but_joins();
    try_marked(needs);
  }
  constexpr void mark_all_but_joins() {
    for (int l = begin(); l < end(); ++l) marked_[l] = net_.layers[l].reads < 2 && !always_keeps(net_, l);
  }

  /// Tries all choices for the layers up to `l`, with the choices in `marked_` after it.
  constexpr void try_layers(int l, std::int64_t bytes, std::int64_t time) {
    if ((limit_ >= 0 && other_bytes_ + bytes > limit_) || (best_.fits && of_step(time) >= best_.time)) return;
    if (l < begin()) {
      try_marked(*tried_needs_);
      return;
    }
    const auto recompute_reads = [&](int v) {
      for (int i = 0; i < net_.values[v].readers; ++i)
        if (const int reader = net_.reader(v, i); reader > l && reader < end() && marked_[reader]) return true;
      return false;
    };
    for (const bool recompute : {false, true}) {
      const auto change = choices_->change_of(l, recompute, recompute_reads);
      if (recompute && (!change.runs || always_keeps(net_, l))) continue;
      marked_[l] = recompute;
      try_layers(l - 1, bytes + change.bytes, time + change.time);
    }
    marked_[l] = false;
  }

  /// Counts the stage with the marked layers, and takes them if they are better. Returns whether they fit.
  GPIPE_COLD constexpr bool try_marked(const memory_requirements& needs) {
    place_recomputes(net_, begin(), end(), marked_.data(), chosen_.data());
    const stage_view stage(net_, {first_, o_.stages, chosen_.data()}, stage_);
    const std::int64_t bytes = limit_ == no_memory_limit ? 0 : bytes_of(stage, needs);
    std::int64_t time = 0, early = 0;
    const int earliest = stage.first_recomputed();
    for (int l = begin(); l < end(); ++l)
      if (stage.recomputed(l)) {
        time = summed(time, costs()[l].forward);
        if (stage.recomputed_before(l) == earliest) early = summed(early, costs()[l].forward);
      }
    const stage_recompute old = best_;
    const bool fits = take(bytes, of_step(time), earliest >= 0);
    if (best_.bytes == old.bytes && best_.time == old.time && best_.fits == old.fits) return fits;
    best_.working_sets = needs.kept_copies;
    best_.early = early;
    for (int l = begin(); l < end(); ++l) before_[l] = chosen_[l];
    return fits;
  }

  const network& net_;
  const plan_options& o_;
  const stage_costs& costs_;
  const memory_requirements* needs_;
  tick_index<schedule_choice> table_;
  bool as_needed_, listed_;
  zeroed_array<bool> marked_;  // the layers that may run again
  zeroed_array<int> chosen_;   // when they run again
  zeroed_array<int> before_;   // when the layers of the best choice run again
  zeroed_array<int> before_with_copies_;
  zeroed_array<bool> recomputed_;
  int sets_;
  zeroed_array<decision> known_;  // [stage][set][decision]
  zeroed_array<unsigned> next_known_;
  std::int64_t counted_ = 0;    // the layers whose bytes were counted, with repeats
  const int* first_ = nullptr;  // the cut of the stage that is decided
  int stage_ = 0;
  packed_weights packed_ = packed_weights::kept;  // of the choice that is tried
  std::int64_t limit_ = 0, other_bytes_ = 0;
  const memory_requirements* tried_needs_ = nullptr;
  const layer_knapsack* choices_ = nullptr;
  stage_recompute best_{};
};

}  // namespace gpipe::detail
