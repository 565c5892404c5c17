#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/model/path.hpp>

namespace gpipe::detail {

// change: a parameter group setting
/// The group of every parameter of a network.
class parameter_groups {
 public:
  /// Throws `error` if a setting is invalid, if a pattern matches nothing, or if earlier groups have all parameters
  /// that a group matches.
  GPIPE_COLD parameter_groups(const network& net, const std::vector<parameter_group>& groups)
      : groups_(groups), groups_of_(index(net.layer_count)) {
    for (std::size_t g = 0; g < groups_.size(); ++g) require_valid(g);
    std::vector<std::string> paths;
    std::vector<std::vector<bool>> used(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g)
      used[g].resize(groups_[g].parameters.size() + groups_[g].layers.size());
    for (int l = 0; l < net.layer_count; ++l) {
      const layer_type& type = net.type_of(l);
      auto& numbers = groups_of_[index(l)];
      numbers.resize(index(type.parameter_count), static_cast<int>(groups_.size()));
      for (int p = 0; p < type.parameter_count; ++p) {
        paths.push_back(path_of(net, {l, p}));
        for (std::size_t g = groups_.size(); g-- > 0;)
          if (takes(groups_[g], paths.back(), type.name, used[g])) numbers[index(p)] = static_cast<int>(g);
      }
      // A tied parameter belongs to the first group that matches one of its uses.
      for (int p = 0; p < type.parameter_count; ++p)
        if (int& owner = at(net.owner(l, p)); numbers[index(p)] < owner) owner = numbers[index(p)];
    }
    for (int l = 0; l < net.layer_count; ++l)
      for (int p = 0; p < net.type_of(l).parameter_count; ++p) at({l, p}) = at(net.owner(l, p));
    for (std::size_t g = 0; g < groups_.size(); ++g) require_used(groups_[g], used[g], paths, net);
    for (std::size_t g = 0; g < groups_.size(); ++g) require_members(g);
  }

  const std::vector<parameter_group>& all() const { return groups_; }
  /// The number of a parameter's group; the number of groups: it is in none.
  int of(int layer, int parameter) const { return groups_of_[index(layer)][index(parameter)]; }
  bool frozen(int layer, int parameter) const {
    const int g = of(layer, parameter);
    return g < static_cast<int>(groups_.size()) && groups_[index(g)].frozen;
  }
  /// Whether a layer has parameters and all of them are frozen.
  bool frozen(int layer) const {
    const int count = static_cast<int>(groups_of_[index(layer)].size());
    for (int p = 0; p < count; ++p)
      if (!frozen(layer, p)) return false;
    return count > 0;
  }

 private:
  int& at(const named_array& parameter) { return groups_of_[index(parameter.layer_index)][index(parameter.index)]; }
  GPIPE_COLD void require_valid(std::size_t g) const {
    const parameter_group& group = groups_[g];
    const auto refuse = [&](const char* setting, double value) {
      throw_error({"groups[", static_cast<int>(g), "].", setting, " is ", significant(value, 6)}, {"choose 0 or more"});
    };
    if (group.parameters.empty() && group.layers.empty())
      throw_error({"groups[", static_cast<int>(g), "] has no pattern"},
                  {"give .parameters = {\"*.bias\"}, or .layers = {\"linear*\"}"});
    if (!(group.rate_factor >= 0 && is_finite(group.rate_factor))) refuse("rate_factor", group.rate_factor);
    if (group.weight_decay && !(*group.weight_decay >= 0 && is_finite(*group.weight_decay)))
      refuse("weight_decay", *group.weight_decay);
  }
  // Tries every pattern, and marks the ones that match.
  static bool takes(const parameter_group& group, std::string_view path, std::string_view layer,
                    std::vector<bool>& used) {
    bool any = false;
    std::size_t pattern_index = 0;
    const auto look = [&](bool found) {
      if (found) any = used[pattern_index] = true;
      ++pattern_index;
    };
    for (const std::string& pattern : group.parameters) look(matches(pattern, path));
    std::string_view name = layer.substr(0, layer.find('<')), plain = name;
    // change: a norm; the name ends in _norm or _norm_with
    if (plain.ends_with("_with")) plain.remove_suffix(5);  // rms_norm_with<...> is an rms_norm
    for (const std::string& pattern : group.layers)
      look(matches(pattern, layer) || matches(pattern, name) || matches(pattern, plain));
    return any;
  }
  GPIPE_COLD static void require_used(const parameter_group& group, const std::vector<bool>& used,
                                      const std::vector<std::string>& paths, const network& net) {
    if (group.may_be_empty) return;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      const bool of_path = i < group.parameters.size();
      const std::string& pattern = of_path ? group.parameters[i] : group.layers[i - group.parameters.size()];
      std::vector<std::string> known = paths;
      if (!of_path) {
        known.clear();
        for (int l = 0; l < net.layer_count; ++l)
          if (net.type_of(l).parameter_count > 0) known.emplace_back(net.type_of(l).name);
      }
      throw_error(
          {"the pattern \"", pattern, "\" of a group matches no ", of_path ? "parameter" : "layer with parameters"},
          {nearest(pattern, known), ", or set .may_be_empty = true"});
    }
  }
  // A parameter is in the first group that matches it, or another use of it.
  GPIPE_COLD void require_members(std::size_t g) const {
    if (groups_[g].may_be_empty) return;
    for (const auto& layer : groups_of_)
      for (const int number : layer)
        if (number == static_cast<int>(g)) return;
    throw_error({"groups[", static_cast<int>(g),
                 "] has no parameter: all that it matches, or tied uses of it, are in earlier groups"},
                {"put the narrower group first, drop this one, or set .may_be_empty = true"});
  }
  GPIPE_COLD static std::string nearest(const std::string& pattern, const std::vector<std::string>& known) {
    if (known.empty()) return "the model has none";
    std::size_t fewest = pattern.npos;
    const std::string* best = nullptr;
    for (const std::string& name : known)
      if (const std::size_t distance = letters_apart(pattern, name); distance < fewest) fewest = distance, best = &name;
    return concat({"the nearest is \"", *best, "\""});
  }

  std::vector<parameter_group> groups_;
  std::vector<std::vector<int>> groups_of_;  // [layer][parameter]; the number of groups: in none
};

}  // namespace gpipe::detail
