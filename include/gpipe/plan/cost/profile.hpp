#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <gpipe/model/model.hpp>
#include <gpipe/model/rows.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>

namespace gpipe {

/// A line of a profile: what the layer at a position of the model took for one micro-batch. `layer` is its name as
/// reports write it, with or without its arguments: "linear<512>" or "linear".
struct measured_layer {
  int position = 0;
  std::string_view layer;
  std::int64_t forward_ns = 0, backward_input_ns = 0, backward_parameters_ns = 0;
};

/// The measured costs of a model, at one size of its micro-batches: a line a layer, in order. Written as
///
///     struct measured {
///       static constexpr int micro_batch_size = 8;
///       static constexpr gpipe::measured_layer layers[] = {{0, "linear<512>", 5200, 5100, 5300}, {1, "gelu", 900,
///       300}};
///     };
///
/// and given to a plan as `profiled<measured>`, which compiles only if it is of the plan's model.
struct profile {
  const measured_layer* layers = nullptr;
  int count = 0;
  int micro_batch_size = 0;
};

/// The profile that a struct with a table is.
template <class Table>
inline constexpr profile profile_of{Table::layers, static_cast<int>(sizeof(Table::layers) / sizeof(measured_layer)),
                                    Table::micro_batch_size};

/// Why a profile is not of a model, and at which line; `line` is -1 where it is none's.
enum class profile_fault { none, length, micro_batch_size, position, layer, negative };
/// What `compare` finds.
struct profile_verdict {
  profile_fault what = profile_fault::none;
  int line = -1;
};

namespace detail {

constexpr bool names_layer(std::string_view given, std::string_view layer) {
  return given == layer || (!given.empty() && layer.size() > given.size() && layer[given.size()] == '<' &&
                            layer.substr(0, given.size()) == given);
}

}  // namespace detail

/// Compares a profile with the model and the micro-batch size that it is to be used for: the first thing that is wrong.
constexpr profile_verdict compare(const profile& p, const network& net, int micro_batch_size) {
  if (p.count != net.slot_count) return {profile_fault::length, -1};
  if (p.micro_batch_size != micro_batch_size) return {profile_fault::micro_batch_size, -1};
  for (int l = 0; l < p.count; ++l) {
    const measured_layer& line = p.layers[l];
    if (line.position != l) return {profile_fault::position, l};
    if (!detail::names_layer(line.layer, net.row_of(l).name)) return {profile_fault::layer, l};
    if (line.forward_ns < 0 || line.backward_input_ns < 0 || line.backward_parameters_ns < 0)
      return {profile_fault::negative, l};
  }
  return {};
}

namespace detail {

// Not constexpr: reached in constant evaluation, it ends it.
[[noreturn]] GPIPE_ONCE inline void bad_profile(const profile_verdict& found, const profile& p, const network& net,
                                                int micro_batch_size) {
  const place where{.slot = found.line};
  if (found.what == profile_fault::length)
    refuse({"the profile has ", p.count, " layers, but the model ", net.slot_count}, {"measure this model"});
  if (found.what == profile_fault::micro_batch_size)
    refuse({"the profile was measured with micro-batches of ", p.micro_batch_size, " samples, not ", micro_batch_size},
           {"measure it again with this size"});
  const measured_layer& line = p.layers[found.line];
  if (found.what == profile_fault::position)
    refuse({"the profile's line ", found.line, " is of position ", line.position},
           {"give a line for each layer, in order, from position 0"});
  if (found.what == profile_fault::layer)
    refuse({"the profile is of a layer ", line.layer, ", but the model has ", net.row_of(found.line).name, " there"},
           {"measure this model"}, where);
  refuse({"the profile has a negative time"}, {"give 0 or more"}, where);
}

}  // namespace detail

/// Throws unless the profile is of the model.
constexpr void require_profile_of(const profile& p, const network& net, int micro_batch_size) {
  const profile_verdict found = compare(p, net, micro_batch_size);
  if (found.what != profile_fault::none) detail::bad_profile(found, p, net, micro_batch_size);
}

/// The cost of every slot of a model: as measured if there is a profile, else analytic.
GPIPE_ONCE constexpr void layer_costs(const network& net, int micro_batch_size, const device& on, const profile& p,
                                      layer_cost* costs) {
  if (p.count == 0) return layer_costs(net, micro_batch_size, on, costs);
  require_profile_of(p, net, micro_batch_size);
  for (int l = 0; l < net.slot_count; ++l) {
    const auto picoseconds = [](std::int64_t ns) { return detail::multiplied(ns, 1000); };
    const measured_layer& line = p.layers[l];
    costs[l] = {picoseconds(line.forward_ns), picoseconds(line.backward_input_ns),
                picoseconds(line.backward_parameters_ns)};
  }
}

namespace broken {

template <int LayersOfModel, int LinesOfProfile, bool Holds>
struct profile_has_a_line_for_each_layer {
  static_assert(Holds, "gpipe: the profile is of another model: it has not as many lines as the model has layers");
};
template <int SizeOfPlan, int SizeOfProfile, bool Holds>
struct profile_has_the_micro_batch_size {
  static_assert(Holds, "gpipe: the profile was measured with micro-batches of another size than the plan's "
                       "(SizeOfPlan, SizeOfProfile): measure with micro-batches of the plan's size, or plan without "
                       "`profiled`");
};
template <int Line, int Position, bool Holds>
struct profile_is_in_order {
  static_assert(Holds, "gpipe: a profile has a line for each layer, in order, from position 0");
};
template <int Position, class Expected, class Given, bool Holds>
struct profile_names_the_layer {
  static_assert(Holds,
                "gpipe: the profile is of another model: at this position it has the layer Given, the model has "
                "Expected");
};
template <int Position, bool Holds>
struct profile_times_are_not_negative {
  static_assert(Holds, "gpipe: the profile has a negative time");
};

}  // namespace broken

namespace detail {

template <class Table, int Line, std::size_t... I>
constexpr auto letters_of(std::index_sequence<I...>) {
  return letters<Table::layers[Line].layer[I]...>{};
}

/// Whether the profile is of the model; if not, it does not compile.
template <class Table, class Model, int MicroBatchSize>
constexpr bool require_profile() {
  constexpr profile p = profile_of<Table>;
  constexpr profile_verdict found = compare(p, network_of<Model>, MicroBatchSize);
  constexpr int line = found.line;
  if constexpr (found.what == profile_fault::length) {
    static_cast<void>(asserted<broken::profile_has_a_line_for_each_layer<slots_of<Model>, p.count, false>>{});
  } else if constexpr (found.what == profile_fault::micro_batch_size) {
    static_cast<void>(asserted<broken::profile_has_the_micro_batch_size<MicroBatchSize, p.micro_batch_size, false>>{});
  } else if constexpr (found.what == profile_fault::position) {
    static_cast<void>(asserted<broken::profile_is_in_order<line, p.layers[line].position, false>>{});
  } else if constexpr (found.what == profile_fault::layer) {
    using expected = typename row_type<Model, network_of<Model>.slots[line].row>::layer;
    using given = decltype(letters_of<Table, line>(std::make_index_sequence<p.layers[line].layer.size()>{}));
    static_cast<void>(asserted<broken::profile_names_the_layer<line, expected, given, false>>{});
  } else if constexpr (found.what == profile_fault::negative) {
    static_cast<void>(asserted<broken::profile_times_are_not_negative<line, false>>{});
  }
  return found.what == profile_fault::none;
}

}  // namespace detail

}  // namespace gpipe
