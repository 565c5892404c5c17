#pragma once

#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/first_fit.hpp>
#include <gpipe/plan/memory/lifetime.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

#include <cstdint>
#include <type_traits>

namespace gpipe {

namespace detail {

/// The receiver of blocks, of one type so that the layout is compiled once; null at compile time.
struct block_sink {
  void (*put)(void* target, const memory_block&) = nullptr;
  void* target = nullptr;
};

// change: the memory layout
/// Lays out one stage, layer by layer: one pass counts bytes (`counted` is null), another places every buffer, given
/// the first pass's result.
class layout {
 public:
  constexpr layout(const stage_view& stage, const memory_requirements& requirements, layout_state& state,
                   const stage_memory* counted, block_sink sink)
      : s_(stage),
        net_(stage.net()),
        needs_(requirements),
        state_(state),
        counted_(counted),
        sink_(sink),
        life_(stage, requirements.split || stage.sends_gradients()),
        first_recomputed_(stage.first_recomputed()) {
    for (int l = s_.first(); l < first_recomputed_; ++l)
      if (const int distance = s_.recomputed_before(l) - l; distance > span_) span_ = distance;
  }

  constexpr int ticks() const { return 2 * (s_.last() - s_.first()); }

  /// Runs until the tick `until`.
  GPIPE_COLD constexpr void run(int until) {
    const int n = s_.last() - s_.first();
    for (; state_.tick < until && state_.tick < n; ++state_.tick) forward(s_.first() + state_.tick);
    for (; state_.tick < until; ++state_.tick) {
      if (state_.tick == n) begin_backward();
      backward(s_.last() - 1 - (state_.tick - n));
    }
    if (until == 2 * n) finish();
  }

 private:
  using kind = memory_kind;

  constexpr std::int64_t size_of(int v) const {
    return static_cast<std::int64_t>(net_.values[v].part.bytes(needs_.micro_batch_size));
  }
  constexpr std::int64_t extras_of(int l) const {
    return static_cast<std::int64_t>(net_.type_of(l).extra_bytes(needs_.micro_batch_size));
  }
  constexpr std::int64_t forward_workspace_of(int l) const {
    return static_cast<std::int64_t>(net_.type_of(l).forward_workspace_bytes(needs_.micro_batch_size));
  }
  constexpr std::int64_t& counted(kind k) { return state_.memory.bytes[static_cast<int>(k)]; }
  /// The offset of a kind.
  constexpr std::int64_t base(kind k) const { return counted_->before(static_cast<int>(k)); }

  constexpr void list_into(kind k, int layer, int value, int index, std::int64_t offset, std::int64_t bytes, int copies,
                           std::int64_t stride = 0) {
    if (!sink_.put) return;
    sink_.put(sink_.target, memory_block{k, layer, value, index, static_cast<std::size_t>(offset),
                                         static_cast<std::size_t>(bytes), copies, static_cast<std::size_t>(stride)});
  }
  /// Appends a block to its kind.
  GPIPE_COLD constexpr void put(kind k, int layer, int value, int index, std::int64_t bytes, int copies = 1) {
    std::int64_t& sum = counted(k);
    if (counted_ != nullptr) list_into(k, layer, value, index, base(k) + sum, bytes, copies);
    sum += bytes * copies;
  }

  GPIPE_COLD constexpr void forward(int l) {
    const layer_type& r = net_.type_of(l);
    constants(l, r);
    arrivals(l, r);
    if (needs_.separate_memory()) departures(l);
    kept_stack& stack = life_.waits(l) ? state_.late : state_.early;
    const auto keep = [&](int layer, int v, std::int64_t bytes) {
      if (counted_ != nullptr)
        list_into(kind::kept, layer, v, 0, base(kind::kept) + stack.bytes + (life_.waits(l) ? 0 : counted_->kept_late),
                  bytes, needs_.kept_copies, kept_bytes());
      stack.bytes += bytes;
    };
    const std::int64_t extras = extras_of(l);
    if (extras > 0 && s_.recomputed(l)) place_transient(kind::activations, l, -1, extras);
    else if (extras > 0) {
      keep(l, -1, extras);
      state_.alive += extras;
    }
    life_.held(l, [&](int v) {
      keep(-1, v, size_of(v));
      stack.under(depth_since(net_.values[v].writer));
    });

    for (int o = 0; o < net_.layers[l].writes; ++o)
      if (const int v = net_.writes_value(l, o); s_.kept(v)) state_.alive += size_of(v);
    life_.activated(l, [&](int v) { place_transient(kind::activations, -1, v, size_of(v)); });
    const std::int64_t work = forward_workspace_of(l);
    if (work > 0) place_transient(kind::activations, l, -1, work, name_of_workspace(), 1);
    state_.late.under(state_.transient.depth());
    if (state_.early.bytes > 0) state_.early.under(state_.transient.depth());
    state_.depth[state_.tick % layout_state::ticks_known] = state_.transient.depth();
    note_alive();
    if (work > 0) drop(name_of_workspace(), work);
    if (extras > 0 && s_.recomputed(l)) drop(-1, extras);
    life_.dies_after_forward(l, [&](int v) { drop(v, size_of(v)); });
  }

  /// The maximum depth of `transient` from the forward tick of a layer until the last.
  constexpr std::int64_t depth_since(int layer) const {
    int t = layer - s_.first();
    if (state_.tick - t > layout_state::ticks_known) return state_.transient.deepest();
    std::int64_t max = 0;
    for (; t < state_.tick; ++t)
      if (const std::int64_t d = state_.depth[t % layout_state::ticks_known]; d > max) max = d;
    return max;
  }

  // assumes: one parameter type
  // assumes: replicas keep all parameters
  // assumes: one commit per step
  /// Blocks that live from step to step.
  GPIPE_COLD constexpr void constants(int l, const layer_type& r) {
    const auto bytes = static_cast<std::int64_t>(net_.own_bytes(l));
    for (int i = 0; i < (needs_.trains ? 2 : 1) && !net_.owns(l); ++i)
      put(kind::tied, l, -1, i, static_cast<std::int64_t>(net_.tied_bytes(l)));
    if (needs_.remote_replicas > 0 && !net_.owns(l))
      put(kind::landing, l, -1, 0,
          static_cast<std::int64_t>(landing_bytes(net_.tied_bytes(l), needs_.remote_replicas)));
    if (needs_.trains && needs_.separate_memory()) gradients_from_elsewhere(l, r);
    optimizer_state(l, bytes);
    // Every layer has a block of parameters, even an empty one, so its address is known.
    put(kind::parameters, l, -1, 0, bytes);
    if (needs_.gradients_leave) no_gradients(l, bytes);
    else put(kind::gradients, l, -1, 0, needs_.trains ? bytes : 0);
    if (r.state_count > 0) put(kind::state, l, -1, 0, static_cast<std::int64_t>(r.state_bytes()));
    if (r.state_count > 0 && needs_.trains)  // the next state, and a sum that shows whether it is finite
      put(kind::state, l, -1, 1, static_cast<std::int64_t>(r.state_bytes() + aligned(sizeof(double))));
    if (r.derived_count > 0) put_derived(l, r);
    if (r.partial_count > 0)
      put(kind::partials, l, -1, 0, static_cast<std::int64_t>(r.partial_bytes()), needs_.micro_batches);
    counted(kind::sums) += static_cast<std::int64_t>(sizeof(double));
  }

  /// Places the optimizer state of a layer, in the memory of the replica that updates it.
  GPIPE_COLD constexpr void optimizer_state(int l, std::int64_t bytes) {
    const std::int64_t before = state_.memory.of(kind::parameters);
    const auto arrays = needs_.tensor_rule == nullptr
                            ? std::int64_t{0}
                            : static_cast<std::int64_t>(arrays_before(net_, l, *needs_.tensor_rule));
    if (counted_ != nullptr) {
      if (const int number = share_of(before, bytes, counted_->of(kind::parameters), needs_.shares);
          number != state_.share) {
        state_.share = number;
        state_.share_begin = before;
        state_.share_arrays = 0;
      }
      const std::int64_t offset = before - state_.share_begin;
      for (int i = 0; i < needs_.moments; ++i)  // one whole array after the other
        list_into(kind::moments, l, -1, i, base(kind::moments) + i * counted_->share + offset, bytes, 1);
      if (needs_.tensor_rule != nullptr)
        list_into(kind::arrays, l, -1, 0, base(kind::arrays) + state_.share_arrays, arrays, 1);
      if (needs_.averages) list_into(kind::averages, l, -1, 0, base(kind::averages) + offset, bytes, 1);
    }
    state_.share_arrays += arrays;
  }

  /// A layer without parameters is in no bucket of gradients that leave.
  GPIPE_COLD constexpr void no_gradients(int l, std::int64_t bytes) {
    for (int i = 0; i < 2 && bytes == 0 && counted_ != nullptr; ++i)
      list_into(kind::gradients, l, -1, i, base(kind::gradients), 0, 1);
  }
  /// Gradients that leave are in a window until the next bucket needs it, or the next but one if a message reads it
  /// there. Gradients of the replica's own share stay, and others wait for gradients of tied uses:
  ///
  ///     | of the share: index 0 of a layer | buckets that wait: index 1 | window: index 1 | second window |
  GPIPE_COLD constexpr void leaving_gradients() {
    const int windows = needs_.remote_replicas > 0 ? 2 : 1;
    std::int64_t window = 0, waiting = 0;
    each_bucket(
        s_,
        [&](const bucket& b) {
          const auto bytes = static_cast<std::int64_t>(b.bytes);
          if (b.lent) waiting += bytes;
          else if (bytes > window) window = bytes;
        },
        needs_.shares);
    stage_memory& m = state_.memory;
    counted(kind::gradients) = m.share + waiting + windows * window;
    if (needs_.remote_replicas > 0) put(kind::landing, -1, -1, 0, needs_.remote_replicas * (waiting + 2 * window));
    if (counted_ == nullptr) return;
    std::int64_t next = base(kind::gradients) + m.share;
    const std::int64_t first_window = next + waiting;
    int number = 0;
    each_bucket(
        s_,
        [&](const bucket& b) {
          const std::int64_t offset = b.lent ? next : first_window + number++ % windows * window;
          if (b.lent) next += static_cast<std::int64_t>(b.bytes);
          const std::int64_t share_begin = share_of_replica(s_, needs_.shares, b.owner).begin;
          auto before = static_cast<std::int64_t>(b.begin);
          for (int l = b.first; l < b.last; ++l) {
            const auto bytes = static_cast<std::int64_t>(net_.own_bytes(l));
            list_into(kind::gradients, l, -1, 0, base(kind::gradients) + before - share_begin, bytes, 1);
            list_into(kind::gradients, l, -1, 1, offset + before - static_cast<std::int64_t>(b.begin), bytes, 1);
            before += bytes;
          }
        },
        needs_.shares);
  }

  /// Gradients of this layer's parameters that arrive from users in later stages: the block of the user's parameter
  /// number p has the index 2 + p, after the indices of its values and gradients.
  GPIPE_COLD constexpr void gradients_from_elsewhere(int l, const layer_type& r) {
    for (int user = s_.last(); user < net_.layer_count; ++user)
      for (int i = 0; i < net_.layers[user].tied; ++i)
        if (const tied_parameter& t = net_.tied[net_.layers[user].first_tied + i]; t.owner.layer_index == l)
          put(kind::tied, user, -1, 2 + t.index,
              static_cast<std::int64_t>(
                  aligned(net_.type_of(user).parameters[t.index].extents.size() * bytes_of(r.type))));
  }

  constexpr bool wants_input(int l) const {
    bool wants = false;
    for (int i = 0; i < net_.layers[l].reads; ++i) wants = wants || net_.values[net_.reads_value(l, i)].gradient;
    return wants;
  }
  /// Blocks of layers that pack on the way share memory after the others: each ends where the kind does.
  GPIPE_COLD constexpr void put_derived(int l, const layer_type& r) {
    const packed_weights choice = packing_of(r, needs_);
    const auto bytes = static_cast<std::int64_t>(
        choice == packed_weights::kept ? r.derived_bytes() : r.derived_bytes_in_turn(needs_.trains, wants_input(l)));
    const bool shares = choice == packed_weights::on_the_way;
    if (counted_ != nullptr) {
      const std::int64_t offset = shares ? counted_->of(kind::derived) - bytes : state_.own_derived;
      list_into(kind::derived, l, -1, 0, base(kind::derived) + offset, bytes, 1);
    }
    if (!shares) state_.own_derived += bytes;
    else if (bytes > state_.shared_derived) state_.shared_derived = bytes;
    counted(kind::derived) = state_.own_derived + state_.shared_derived;
  }

  // assumes: links in a process move no bytes
  /// Blocks that other stages and the caller write.
  GPIPE_COLD constexpr void arrivals(int l, const layer_type& r) {
    for (int i = 0; i < net_.layers[l].reads; ++i) {
      const int v = net_.reads_value(l, i);
      if (net_.values[v].writer < s_.first() && s_.reads_first(v, s_.reader_index(v, l, i)))
        put(kind::stash, -1, v, 0, size_of(v), stash_copies(v));
    }
    for (int i = 0; i < r.field_count; ++i)
      put(kind::stash, l, -1, i,
          static_cast<std::int64_t>(edge_part{r.fields[i].size, r.fields[i].type}.bytes(needs_.micro_batch_size)),
          needs_.in_flight);
    for (int o = 0; o < net_.layers[l].writes; ++o) {
      const int v = net_.writes_value(l, o);
      if (!net_.values[v].gradient || !s_.sent(v)) continue;
      for (int k = 0; k < s_.returns(v); ++k)
        put(kind::returned, -1, v, k, size_of(v),
            s_.returned_by_next(v, k) ? needs_.returned.next : needs_.returned.skip);
    }
  }

  // assumes: links in a process move no bytes
  /// Blocks of values for workers that share no memory with this one.
  GPIPE_COLD constexpr void departures(int l) {
    for (int o = 0; o < net_.layers[l].writes; ++o)
      if (const int v = net_.writes_value(l, o); s_.sent(v)) {
        int copies = 0;
        for (int i = 0; i < net_.values[v].readers; ++i)
          if (const int memory_slots = s_.read_by_next(v, i) ? needs_.outgoing.next : needs_.outgoing.skip;
              net_.reader(v, i) >= s_.last() && memory_slots > copies)
            copies = memory_slots;
        if (copies > 0) put(kind::outgoing, -1, v, 0, size_of(v), copies);
      }
    for (int i = 0; i < net_.layers[l].reads; ++i) {
      const int v = net_.reads_value(l, i), index = s_.reader_index(v, l, i);
      if (!needs_.trains || !net_.values[v].gradient || net_.values[v].writer >= s_.first()) continue;
      if (s_.top_stage(v) == s_.stage() && !s_.reads_first(v, index)) continue;
      const bool back = s_.origin_of(v) == stage_view::origin::next;
      if (const int copies = back ? needs_.outgoing.back : needs_.outgoing.skip; copies > 0)
        put(kind::outgoing, -1, v, s_.return_of(v, index), size_of(v), copies);
    }
  }

  constexpr int stash_copies(int v) const {
    const auto origin = s_.origin_of(v);
    return origin == stage_view::origin::outside ? needs_.in_flight
           : origin == stage_view::origin::next  ? needs_.stash.next
                                                 : needs_.stash.skip;
  }

  constexpr std::int64_t kept_bytes() const {
    return counted_ != nullptr ? counted_->kept_set : state_.late.bytes + state_.early.bytes;
  }

  /// Places a transient buffer; in backward in the micro-batch's own kept part, if there are several and it fits.
  constexpr void place_transient(kind k, int layer, int value, std::int64_t bytes) {
    place_transient(k, layer, value, bytes, value);
  }
  /// `id`: its name until it is dropped, if this is not the value.
  GPIPE_COLD constexpr void place_transient(kind k, int layer, int value, std::int64_t bytes, int id, int index = 0) {
    state_.separate += bytes;
    state_.passing += bytes;
    const bool backward = k != kind::activations;
    if (backward && place_inside(k, layer, value, bytes, id, index)) return;
    const std::int64_t depth = state_.transient.place(id, bytes);
    if (counted_ != nullptr) list_into(k, layer, value, index, counted_->total() - depth, bytes, 1);
    if (backward) reach(depth + (needs_.kept_copies > 1 ? kept_bytes() : state_.alive));
  }
  /// Whether the micro-batch has a separate kept part with this number of unused bytes: then the buffer is there.
  GPIPE_COLD constexpr bool place_inside(kind k, int layer, int value, std::int64_t bytes, int id, int index) {
    if (needs_.kept_copies == 1) return false;
    const std::int64_t depth = state_.inside.place(id, bytes, kept_bytes() - state_.alive);
    if (depth > 0 && counted_ != nullptr)
      list_into(k, layer, value, index, base(kind::kept) + kept_bytes() - depth, bytes, needs_.kept_copies,
                kept_bytes());
    return depth > 0;
  }
  constexpr void drop(int id, std::int64_t bytes) {
    state_.passing -= bytes;
    state_.inside.drop(id);
    state_.transient.drop(id);
  }
  /// The buffer lives to the end of backward.
  constexpr void stay(int id) {
    state_.inside.keep(id);
    state_.transient.keep(id);
  }
  constexpr void note_alive() {
    if (state_.alive + state_.passing > state_.max_alive) state_.max_alive = state_.alive + state_.passing;
  }

  /// Between forward and backward all kept values are alive, and nothing else.
  constexpr void begin_backward() {
    state_.alive = state_.height = state_.late.bytes + state_.early.bytes;
    if (needs_.kept_copies > 1) state_.height += state_.transient.deepest();
    reach(state_.late.height);
    reach(state_.late.bytes + state_.early.height);
    state_.passing = 0;
    state_.transient = {};
    recompute_before(first_recomputed_);
  }
  constexpr void reach(std::int64_t height) {
    if (height > state_.height) state_.height = height;
  }

  /// Whether a delayed parameter part reads the value's gradient.
  constexpr bool held(int v) const { return needs_.held > 0 && life_.waits(net_.values[v].writer); }

  // The names of buffers in backward: a gradient has the name of its value.
  constexpr int name_of_recomputed(int v) const { return net_.value_count + v; }
  constexpr int name_of_extras(int l) const { return 2 * net_.value_count + l; }
  // One layer at a time has these.
  constexpr int name_of_workspace() const { return 2 * net_.value_count + net_.layer_count; }
  constexpr int name_of_backward_extras() const { return name_of_workspace() + 1; }
  /// The first layer that may run again before the backward of this one.
  constexpr int first_within(int layer) const { return layer - s_.first() > span_ ? layer - span_ : s_.first(); }
  /// Places the outputs of the layers that run forward again before the backward of layer `before`.
  GPIPE_COLD constexpr void recompute_before(int before) {
    for (int l = first_within(before); l <= before; ++l) {
      if (s_.recomputed_before(l) != before) continue;
      if (extras_of(l) > 0) place_transient(kind::recomputed, l, -1, extras_of(l), name_of_extras(l));
      for (int o = 0; o < net_.layers[l].writes; ++o) {
        const int v = net_.writes_value(l, o);
        place_transient(kind::recomputed, -1, v, size_of(v), name_of_recomputed(v));
      }
      if (const std::int64_t work = forward_workspace_of(l); work > 0) {
        place_transient(kind::recomputed, l, -1, work, name_of_workspace(), 1);
        note_alive();
        drop(name_of_workspace(), work);
      }
    }
  }
  /// Drops the recomputed values that are read for the last time in the backward of layer `l`.
  GPIPE_COLD constexpr void drop_recomputed(int l) {
    for (int w = first_within(l); w <= l; ++w) {
      if (s_.recomputed_before(w) < l) continue;
      if (w == l && extras_of(w) > 0) drop(name_of_extras(w), extras_of(w));
      for (int o = 0; o < net_.layers[w].writes; ++o)
        if (const int v = net_.writes_value(w, o); life_.last_reader(v) == l) drop(name_of_recomputed(v), size_of(v));
    }
  }

  /// For a delayed parameter part they are in the micro-batch's own kept part, which it has until then, or held.
  GPIPE_COLD constexpr void place_backward_extras(int l, std::int64_t bytes, bool delayed) {
    const int id = name_of_backward_extras();
    if (!delayed) return place_transient(kind::backward, l, -1, bytes, id);
    if (!place_inside(kind::backward, l, -1, bytes, id, 0)) return put(kind::held, l, -1, 0, bytes, needs_.held);
    state_.separate += bytes;
    state_.passing += bytes;
  }

  GPIPE_COLD constexpr void backward(int l) {
    if (l < first_recomputed_) recompute_before(l);
    life_.differentiated(l, [&](int v) {
      if (held(v)) put(kind::held, -1, v, 0, size_of(v), needs_.held);
      else place_transient(kind::backward, -1, v, size_of(v));
    });
    const bool waits = life_.waits(l);
    const auto extras = static_cast<std::int64_t>(net_.type_of(l).backward_extra_bytes(needs_.micro_batch_size));
    if (extras > 0) place_backward_extras(l, extras, waits && needs_.held > 0);
    const auto added = static_cast<std::int64_t>(life_.added_bytes(l, needs_.micro_batch_size));
    if (added > 0) place_transient(kind::scratch, l, -1, added);
    const auto work = static_cast<std::int64_t>(net_.type_of(l).workspace_bytes(needs_.micro_batch_size));
    if (work > 0) place_transient(kind::workspace, l, -1, work);
    note_alive();
    if (added > 0) drop(-1, added);
    if (work > 0 && life_.works_late(l)) stay(-1);
    else if (work > 0) drop(-1, work);
    if (extras > 0 && waits) stay(name_of_backward_extras());
    else if (extras > 0) drop(name_of_backward_extras(), extras);

    life_.consumed(l, [&](int v) {
      if (held(v)) return;
      if (!waits) return drop(v, size_of(v));
      stay(v);
    });
    if (l <= first_recomputed_) drop_recomputed(l);
    if (waits) return;
    if (!s_.recomputed(l)) state_.alive -= extras_of(l);
    life_.held(l, [&](int v) { state_.alive -= size_of(v); });
  }

  GPIPE_COLD constexpr void finish() {
    const std::int64_t kept = state_.late.bytes + state_.early.bytes, other_sets = (needs_.kept_copies - 1) * kept;
    stage_memory& m = state_.memory;
    std::int64_t arrays = state_.share_arrays;
    m.share = m.of(kind::parameters);
    if (needs_.shares > 1) {
      const stage_share largest = largest_share(s_, needs_.shares, needs_.tensor_rule);
      m.share = largest.bytes;
      arrays = largest.arrays;
    }
    counted(kind::moments) = m.share * needs_.moments;
    counted(kind::arrays) = arrays;
    counted(kind::averages) = needs_.averages ? m.share : 0;
    if (needs_.gradients_leave) leaving_gradients();
    counted(kind::sums) = static_cast<std::int64_t>(aligned(static_cast<std::size_t>(m.of(kind::sums))));
    if (counted_ != nullptr) list_into(kind::sums, -1, -1, 0, base(kind::sums), m.of(kind::sums), 1);
    if (needs_.remote_replicas > 0 && !needs_.gradients_leave) {
      const auto flat = static_cast<std::size_t>(m.of(kind::parameters));
      put(kind::landing, -1, -1, 0,
          needs_.shares > 1 ? m.share * needs_.remote_replicas
                            : static_cast<std::int64_t>(landing_of_buckets(flat, needs_.remote_replicas)));
    }
    counted(kind::kept) = kept + other_sets;
    counted(kind::transient) = state_.height - kept;
    m.lower_bound = m.before(static_cast<int>(kind::kept)) + other_sets + state_.max_alive;
    m.naive = m.before(static_cast<int>(kind::transient)) + state_.separate;
    m.kept_set = kept;
    m.kept_late = state_.late.bytes;
  }

  const stage_view& s_;
  const network& net_;
  const memory_requirements& needs_;
  layout_state& state_;
  const stage_memory* counted_;
  block_sink sink_;
  lifetimes life_;
  int first_recomputed_;  // the layer before whose backward the first recompute runs
  int span_ = 0;  // a layer runs again before the backward of a layer that is at most this number of layers later
};

/// Continues a count until the tick `until`, at most to the end.
GPIPE_COLD constexpr layout_state count_on(const stage_view& s, const memory_requirements& requirements,
                                           layout_state state, int until) {
  layout pass(s, requirements, state, nullptr, {});
  pass.run(until < pass.ticks() ? until : pass.ticks());
  return state;
}

}  // namespace detail

/// The bytes of a stage, by kind.
constexpr stage_memory memory_of(const stage_view& s, const memory_requirements& requirements) {
  return detail::count_on(s, requirements, {}, 2 * (s.last() - s.first())).memory;
}

namespace detail {

/// Lays out the arena of a stage whose bytes are `counted` by `memory_of`: calls `sink(const memory_block&)` for every
/// buffer. The counting pass runs the same code, so the plan's bytes are the executor's.
template <class Sink>
GPIPE_COLD void lay_out(const stage_view& s, const memory_requirements& requirements, const stage_memory& counted,
                        Sink&& sink) {
  detail::layout_state state;
  using sink_type = std::remove_reference_t<Sink>;
  detail::layout pass(s, requirements, state, &counted,
                      {[](void* target, const memory_block& b) { (*static_cast<sink_type*>(target))(b); }, &sink});
  pass.run(pass.ticks());
}

/// The same for a stage that has not been counted; returns its bytes by kind.
template <class Sink>
GPIPE_COLD stage_memory lay_out(const stage_view& s, const memory_requirements& requirements, Sink&& sink) {
  const stage_memory counted = memory_of(s, requirements);
  lay_out(s, requirements, counted, sink);
  return counted;
}

}  // namespace detail

}  // namespace gpipe
