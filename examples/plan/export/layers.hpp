#pragma once

// The layers of a model of another framework, as its pipelines cut it: one line a block.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>

#include "../../layer_table.hpp"
#include "../subject.hpp"

namespace example {

using namespace gpipe;

/// The kinds of layers that frameworks place by name.
enum class layer_role { embedding, block, norm, prediction, head };

/// The layers of a model with their costs: an embedding, blocks, perhaps a norm and predictions of further tokens
/// (MTP), and the head with its loss.
struct framework_layers {
  std::string title;
  std::vector<table_layer> lines;
  std::vector<layer_cost> costs;  ///< ns; backward in its parts
  std::vector<layer_role> roles;

  int count(layer_role role) const {
    int found = 0;
    for (const layer_role r : roles) found += r == role;
    return found;
  }

  void add(layer_role role, table_layer line, const layer_cost& cost) {
    lines.push_back(std::move(line));
    costs.push_back(cost);
    roles.push_back(role);
  }

  /// As planning sees it.
  subject planned() const {
    subject it = from_layers(title, lines);
    it.costs = costs;
    return it;
  }

  /// The layers without a line for the norm: it belongs to the last layer before it. Predictions are one line.
  framework_layers joined() const {
    framework_layers made{title, {}, {}, {}};
    for (std::size_t l = 0; l < roles.size(); ++l) {
      const bool again = roles[l] == layer_role::prediction && !made.roles.empty() && made.roles.back() == roles[l];
      if (roles[l] != layer_role::norm && !again) {
        made.add(roles[l], lines[l], costs[l]);
        continue;
      }
      layer_cost& cost = made.costs.back();
      cost.forward += costs[l].forward;
      cost.backward_input += costs[l].backward_input;
      cost.backward_parameters += costs[l].backward_parameters;
      table_layer& line = made.lines.back();
      line.forward_ns += lines[l].forward_ns;
      line.backward_ns += lines[l].backward_ns;
      line.parameter_bytes += lines[l].parameter_bytes;
      line.activation_bytes += lines[l].activation_bytes;
    }
    return made;
  }
};

/// The layers of a table of costs. The first line is the embedding, the last one the head, a line before the head whose
/// name has "norm" is the final norm, lines that begin with "mtp" predict further tokens, and each other is a block.
inline framework_layers layers_of_table(const std::string& path) {
  framework_layers made{path, {}, {}, {}};
  const std::vector<table_layer> lines = read_layer_table(path);
  for (std::size_t l = 0; l < lines.size(); ++l) {
    const table_layer& it = lines[l];
    const bool norm = l + 2 == lines.size() && it.name.find("norm") != std::string::npos;
    const layer_role role = l == 0                       ? layer_role::embedding
                            : l + 1 == lines.size()      ? layer_role::head
                            : norm                       ? layer_role::norm
                            : it.name.starts_with("mtp") ? layer_role::prediction
                                                         : layer_role::block;
    if ((role == layer_role::block || role == layer_role::head) && (it.forward_ns == 0 || it.backward_ns == 0))
      throw error(it.name + (it.forward_ns == 0 ? ": forward_ns is 0" : ": backward_ns is 0"),
                  "give the time that the layer takes: a cut is made by times",
                  {.file = path, .line = static_cast<long>(l) + 2});
    made.add(role, it, {it.forward_ns, it.backward_ns / 2, it.backward_ns - it.backward_ns / 2});
  }
  if (made.count(layer_role::block) == 0)
    throw error("there is no block", "give a line for the embedding, one for each block, and one for the head",
                {.file = path});
  return made;
}

}  // namespace example
