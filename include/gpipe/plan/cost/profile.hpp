#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>

namespace gpipe {

// change: a profile from a file; the names are views
/// A line of a profile: the measured times of the layer at a position of the model for one micro-batch. `layer` is its
/// name as in reports, with or without its template arguments: "linear<512>" or "linear".
struct measured_layer {
  int position = 0;
  std::string_view layer;
  std::int64_t forward_ns = 0, backward_input_ns = 0, backward_parameters_ns = 0;
};

/// The measured costs of a model at one micro-batch size: one line per layer, in order. Written as
///
///     struct measured {
///       static constexpr int micro_batch_size = 8;
///       static constexpr gpipe::measured_layer layers[] = {{0, "linear<512>", 5200, 5100, 5300}, {1, "gelu", 900,
///       300}};
///     };
///
/// and passed to a plan as `profiled<measured>`. It compiles only if it matches the plan's model.
struct profile {
  const measured_layer* layers = nullptr;
  int count = 0;
  int micro_batch_size = 0;
};

namespace detail {

/// The profile of a struct with such a table.
template <class Table>
inline constexpr profile profile_of{Table::layers, static_cast<int>(sizeof(Table::layers) / sizeof(measured_layer)),
                                    Table::micro_batch_size};

/// The reasons for which a profile does not match a model.
enum class profile_fault { none, length, micro_batch_size, position, layer, negative };
/// The result of `compare`: the first mismatch, and its line; -1 if it has no line.
struct profile_mismatch {
  profile_fault error = profile_fault::none;
  int line = -1;
};

constexpr bool names_layer(std::string_view given, std::string_view layer) {
  return given == layer || (!given.empty() && layer.size() > given.size() && layer[given.size()] == '<' &&
                            layer.substr(0, given.size()) == given);
}

/// Compares a profile with the model and the micro-batch size of a plan, and returns the first mismatch.
constexpr profile_mismatch compare(const profile& p, const network& net, int micro_batch_size) {
  if (p.count != net.layer_count) return {profile_fault::length, -1};
  if (p.micro_batch_size != micro_batch_size) return {profile_fault::micro_batch_size, -1};
  for (int l = 0; l < p.count; ++l) {
    const measured_layer& line = p.layers[l];
    if (line.position != l) return {profile_fault::position, l};
    if (!detail::names_layer(line.layer, net.type_of(l).name)) return {profile_fault::layer, l};
    if (line.forward_ns < 0 || line.backward_input_ns < 0 || line.backward_parameters_ns < 0)
      return {profile_fault::negative, l};
  }
  return {};
}

// Not constexpr: a call in constant evaluation is an error.
[[noreturn]] GPIPE_COLD inline void bad_profile(const profile_mismatch& found, const profile& p, const network& net,
                                                int micro_batch_size) {
  const location layer_location{.layer_index = found.line};
  if (found.error == profile_fault::length)
    throw_error({"the profile has ", p.count, " layers, but the model has ", net.layer_count}, {"profile this model"});
  if (found.error == profile_fault::micro_batch_size)
    throw_error({"the profile's micro-batch size is ", p.micro_batch_size, ", but the plan's is ", micro_batch_size},
                {"profile again with the plan's size"});
  const measured_layer& line = p.layers[found.line];
  if (found.error == profile_fault::position)
    throw_error({"line ", found.line, " of the profile has position ", line.position},
                {"give one line per layer, in order, from position 0"});
  if (found.error == profile_fault::layer)
    throw_error(
        {"the profile has the layer ", line.layer, ", but the model has ", net.type_of(found.line).name, " there"},
        {"profile this model"}, layer_location);
  throw_error({"the profile has a negative time"}, {"give at least 0"}, layer_location);
}

/// Throws unless the profile matches the model.
constexpr void require_profile_of(const profile& p, const network& net, int micro_batch_size) {
  const profile_mismatch found = compare(p, net, micro_batch_size);
  if (found.error != profile_fault::none) detail::bad_profile(found, p, net, micro_batch_size);
}

}  // namespace detail

/// The cost of every layer of a model: measured if there is a profile, else analytic.
GPIPE_COLD constexpr void layer_costs(const network& net, int micro_batch_size, const device_spec& device,
                                      const profile& p, layer_cost* costs, bool parameters = false) {
  if (p.count == 0) return layer_costs(net, micro_batch_size, device, costs, parameters);
  detail::require_profile_of(p, net, micro_batch_size);
  for (int l = 0; l < net.layer_count; ++l) {
    const auto picoseconds = [](std::int64_t ns) { return detail::multiplied(ns, 1000); };
    const measured_layer& line = p.layers[l];
    costs[l] = {picoseconds(line.forward_ns), picoseconds(line.backward_input_ns),
                picoseconds(line.backward_parameters_ns)};
  }
}

}  // namespace gpipe
