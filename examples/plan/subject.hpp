#pragma once

// A model as planning sees it: a model written with gpipe, or a table of layer costs.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan.hpp>

#include "../layer_table.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

/// A model as planning sees it, with times in nanoseconds of one micro-batch.
struct subject {
  std::string title;
  std::vector<std::string> names;
  std::vector<layer_cost> costs;
  std::function<std::int64_t(cut whole, int stage, const memory_requirements&)> bytes;  // of a table's stage
  std::function<std::string(int first, int last)> parameters;
  const network* net = nullptr;  // null for a table
  plan_options options{};
  std::function<std::int64_t(int layer)> enters{};  // bytes that a table's layer reads of the one before
  std::vector<table_layer> rows{};                  // of a table

  int layers() const { return static_cast<int>(costs.size()); }
};

inline subject written_in_gpipe(std::string title, const network& net, const plan_options& o) {
  subject it{std::move(title), {}, {}, {}, {}, &net, o};
  it.costs.resize(static_cast<std::size_t>(net.layer_count));
  layer_costs(net, o.micro_batch_size, o.device, o.profile, it.costs.data());
  for (layer_cost& c : it.costs) c = {c.forward / 1000, c.backward_input / 1000, c.backward_parameters / 1000};
  for (int l = 0; l < net.layer_count; ++l) it.names.emplace_back(net.type_of(l).name);
  it.parameters = [&net](int first, int last) {
    std::uint64_t sum = 0;
    for (int l = first; l < last; ++l) sum += net.type_of(l).parameter_elements();
    return counted(sum);
  };
  return it;
}

/// A model of which only the costs of its layers are known; half of a layer's backward is for its parameters.
inline subject from_layers(std::string title, const std::vector<table_layer>& layers) {
  subject it{std::move(title), {}, {}, {}, {}, nullptr, {}};
  it.rows = layers;
  for (const auto& l : layers) {
    it.names.push_back(l.name);
    it.costs.push_back({l.forward_ns, l.backward_ns / 2, l.backward_ns - l.backward_ns / 2});
  }
  std::vector<std::int64_t> parameters{0}, activations{0},
      enters{0};  // running sums; the input of a stage that begins here
  for (const auto& l : layers) {
    parameters.push_back(parameters.back() + l.parameter_bytes);
    activations.push_back(activations.back() + l.activation_bytes);
    enters.push_back(l.output_bytes);
  }
  const auto between = [](const std::vector<std::int64_t>& sums, int first, int last) {
    return sums[static_cast<std::size_t>(last)] - sums[static_cast<std::size_t>(first)];
  };
  it.parameters = [=](int first, int last) {
    return sized(static_cast<std::uint64_t>(between(parameters, first, last)));
  };
  it.enters = [=](int layer) { return enters[static_cast<std::size_t>(layer)]; };
  it.bytes = [=](cut whole, int stage, const memory_requirements& terms) {
    using gpipe::detail::multiplied, gpipe::detail::summed;
    const int first = whole.first[stage], last = whole.first[stage + 1];
    const std::int64_t inputs = multiplied(enters[static_cast<std::size_t>(first)], terms.in_flight);
    return summed(between(parameters, first, last),
                  summed(inputs, multiplied(between(activations, first, last), terms.kept_copies)));
  };
  return it;
}

inline subject from_table(const std::string& path) { return from_layers(path, read_layer_table(path)); }

}  // namespace example
