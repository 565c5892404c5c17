#pragma once

// A table of layer costs as a network, so that the library plans it like a model.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/profile.hpp>

#include "../../layer_table.hpp"

namespace example {

using namespace gpipe;

/// A chain of the table's layers. One sample stands for one micro-batch of the table, whose costs are a profile.
///
///     parameter_bytes      half a parameter and half its gradient: the optimizer's arrays are among them
///     activation_bytes     an extra, which forward writes and backward reads
///     output_bytes         of the value that the next layer reads
class table_network {
 public:
  explicit table_network(const std::vector<table_layer>& rows) {
    values_.push_back({{1}, -1, false, 0, 1});
    for (std::size_t l = 0; l < rows.size(); ++l) {
      const table_layer& of = rows[l];
      const int at = static_cast<int>(l);
      gpipe::detail::layer_type& made = types_.emplace_back();
      made.name = names_.emplace_back(of.name);
      const bool last = l + 1 == rows.size();
      made.inputs = 1;
      made.outputs = last ? 0 : 1;
      if (of.parameter_bytes > 0) {
        made.parameters = &parameters_.emplace_back(parameter{"table", extents_of(floats_in(of.parameter_bytes / 2))});
        made.parameter_count = 1;
      }
      made.extras = &extras_.emplace_back(buffer{"kept", floats_in(of.activation_bytes)});
      made.extra_count = of.activation_bytes > 0;
      layers_.push_back({at, at, 1, at + 1, made.outputs});
      reads_.push_back({at, at});
      readers_.push_back(at);
      if (!last) values_.push_back({{floats_in(of.output_bytes)}, at, true, at + 1, 1});
      measured_.push_back({at, made.name, of.forward_ns, of.backward_ns / 2, of.backward_ns - of.backward_ns / 2});
    }
  }
  table_network(const table_network&) = delete;
  table_network& operator=(const table_network&) = delete;

  /// Both point into this object.
  network net() const {
    network made;
    made.types = types_.data();
    made.layers = layers_.data();
    made.values = values_.data();
    made.reads = reads_.data();
    made.readers = readers_.data();
    made.type_count = made.layer_count = made.read_count = static_cast<int>(layers_.size());
    made.value_count = made.layer_count;
    made.entering = 1;
    return made;
  }
  gpipe::profile profile() const { return {measured_.data(), static_cast<int>(measured_.size()), 1}; }

 private:
  /// An extent is an int.
  static gpipe::detail::shape extents_of(std::size_t floats) {
    constexpr std::size_t row = 4096;
    if (floats < row * row) return {static_cast<int>(floats)};
    return {static_cast<int>((floats + row - 1) / row), static_cast<int>(row)};
  }
  static std::size_t floats_in(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 3) / 4); }

  std::deque<std::string> names_;
  std::deque<parameter> parameters_;
  std::deque<buffer> extras_;
  std::vector<gpipe::detail::layer_type> types_;
  std::vector<gpipe::detail::expanded_layer> layers_;
  std::vector<gpipe::detail::value> values_;
  std::vector<gpipe::detail::read> reads_;
  std::vector<int> readers_;
  std::vector<measured_layer> measured_;
};

}  // namespace example
