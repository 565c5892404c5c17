#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/checkpoint/names/map_names.hpp>

namespace gpipe::detail {

GPIPE_COLD inline std::string shape_text(std::span<const std::uint64_t> extents) {
  std::string text;
  for (const std::uint64_t extent : extents) text.append(text.empty() ? "" : " x ").append(std::to_string(extent));
  return text.empty() ? "a single number" : text;
}

// change: the array order in a file
GPIPE_COLD GPIPE_INLINE array_match match_arrays(const std::vector<stored_array>& wanted,
                                                 const std::vector<found_array>& file) {
  std::map<std::string_view, std::size_t> locations;
  for (std::size_t i = 0; i < file.size(); ++i) locations.emplace(file[i].name, i);
  array_match match;
  for (const stored_array& want : wanted) {
    const auto location = locations.find(want.name);
    match.found.push_back(-1);
    if (location == locations.end()) {
      match.report.missing.push_back(want.name);
      continue;
    }
    const std::span<const std::uint64_t> shape = file[location->second].shape;
    const std::vector<std::uint64_t> extents(want.extents.extents, want.extents.extents + want.extents.rank);
    if (!std::equal(shape.begin(), shape.end(), extents.begin(), extents.end())) {
      match.report.misshaped.push_back(
          concat({want.name, " (file ", shape_text(shape), ", model ", shape_text(extents), ")"}));
    } else {
      match.found.back() = static_cast<std::ptrdiff_t>(location->second);
      match.report.loaded.push_back(want.name);
    }
    locations.erase(location);
  }
  for (const found_array& array : file)
    if (locations.contains(array.name)) match.report.unexpected.emplace_back(array.name);
  return match;
}

GPIPE_COLD GPIPE_INLINE void forgive_counters(load_report& report) {
  std::erase_if(report.unexpected, [](const std::string& name) {
    return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
  });
}

GPIPE_COLD GPIPE_INLINE void throw_misfit(const load_report& report, const std::string& file) {
  constexpr std::size_t max = 10;
  std::string wrong;
  const auto is_plain = [](const std::string& name) {  // a file's may have any bytes
    return name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  };
  const auto list = [&](const char* problem, const std::vector<std::string>& names) {
    if (names.empty()) return;
    wrong.append(wrong.empty() ? "the file does not fit the model: " : "; ");
    wrong.append(concat({names.size(), " ", problem, ": "}));
    for (std::size_t i = 0; i < names.size() && i < max; ++i)
      wrong.append(i > 0 ? ", " : "").append(is_plain(names[i]) ? names[i] : detail::quoted(names[i]));
    if (names.size() > max) wrong += ", ...";
  };
  list("missing", report.missing);
  list("unexpected", report.unexpected);
  list("misshaped", report.misshaped);
  throw error(wrong, "load a file of this model, or take what fits with load_mode::partial", {.file = file});
}

GPIPE_COLD GPIPE_INLINE bool find_stars(std::string_view pattern, std::string_view name,
                                        std::vector<std::string_view>& stars) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  const std::size_t found = stars.size();
  for (std::size_t taken = 1; taken <= name.size() && name[taken - 1] != '.'; ++taken) {
    stars.push_back(name.substr(0, taken));
    if (find_stars(pattern, name.substr(taken), stars)) return true;
    stars.resize(found);
  }
  return false;
}

/// The pattern with texts for its stars.
GPIPE_COLD inline std::string with_stars(std::string_view pattern, const std::vector<std::string_view>& stars) {
  std::string name;
  std::size_t next = 0;
  for (const char c : pattern)
    if (c == '*') name += stars[next++];
    else name += c;
  return name;
}

GPIPE_COLD inline void require_valid(const name_rule& rule) {
  const auto stars = [](const std::string& pattern) { return std::count(pattern.begin(), pattern.end(), '*'); };
  if (rule.file.empty())
    throw_error({"the rule for ", detail::quoted(rule.model), " has no name in the file"}, {"give at least one"});
  for (const std::string& name : rule.file)
    if (stars(name) != stars(rule.model))
      throw_error({"the name ", detail::quoted(name), " has ", stars(name), " stars, but ", detail::quoted(rule.model),
                   " has ", stars(rule.model)},
                  {"give both the same number"});
  const std::vector<int>& shares = rule.row_shares;
  if (!shares.empty() && shares.size() != rule.file.size())
    throw_error({"the rule for ", detail::quoted(rule.model), " has ", rule.file.size(), " names and ", shares.size(),
                 " row_shares"},
                {"give each name a share, or none"});
  for (const int share : shares)
    if (share < 1)
      throw_error({"the rule for ", detail::quoted(rule.model), " has a row_share of ", share}, {"choose at least 1"});
}

/// Sets the order and the extents that an array, or some of its rows, has in a file of this layout.
GPIPE_COLD inline void set_order(stored_array& array, file_layout layout, bool transposed) {
  auto& e = array.extents.extents;
  const auto n = [&](int i) { return static_cast<std::size_t>(e[i]); };
  if (array.extents.rank == 4) {
    if (!transposed && (!array.outputs_last || layout == file_layout::gpipe)) return;
    array.order = axis_order({n(0) * n(1), n(2), n(3)}, {2, 1, 0});
    array.extents = {e[3], e[2], e[0], e[1]};
    return;
  }
  if (array.extents.rank == 3 && array.outputs_last && layout != file_layout::gpipe) {
    array.order = axis_order({n(0), n(1), n(2)}, {2, 1, 0});
    array.extents = {e[2], e[1], e[0]};
  }
  if (array.extents.rank < 1 || array.extents.rank > 2) return;
  const bool torch = layout != file_layout::gpipe;
  const auto row_pixels = static_cast<std::size_t>(torch ? array.row_pixels : 1),
             column_pixels = static_cast<std::size_t>(torch ? array.column_pixels : 1),
             columns = array.extents.rank == 2 ? n(1) : 1;
  if (transposed)
    array.order = axis_order({row_pixels, n(0) / row_pixels, column_pixels, columns / column_pixels}, {3, 2, 1, 0});
  else array.order = axis_order({row_pixels, n(0) / row_pixels, column_pixels, columns / column_pixels}, {1, 0, 3, 2});
  if (transposed) std::swap(e[0], e[1]);
}

/// The tensors of an array by this rule.
GPIPE_COLD inline std::vector<stored_array> parts_of(const stored_array& array, const name_rule& rule,
                                                     const std::vector<std::string_view>& stars,
                                                     const std::string& prefix, file_layout layout) {
  const auto rank = array.extents.rank;
  if (rule.transposed && rank != 2 && (rank != 4 || rule.file.size() > 1))
    throw_error({"the rule for ", detail::quoted(rule.model), " is transposed, but ", detail::quoted(array.name),
                 " has ", rank, rank == 1 ? " dimension" : " dimensions"},
                {"transpose matrices, and whole weights of convolutions, only"});
  if (rule.file.size() > 1 && layout != file_layout::gpipe && (array.outputs_last || array.row_pixels > 1))
    throw_error({"the rule for ", detail::quoted(rule.model), " has ", rule.file.size(), " names, but the rows of ",
                 detail::quoted(array.name), " have another order in PyTorch"},
                {"give it one name"});
  std::vector<int> shares = rule.row_shares;
  if (shares.empty()) shares.assign(rule.file.size(), 1);
  const auto total_shares =
      std::accumulate(shares.begin(), shares.end(), std::size_t{0},
                      [](std::size_t sum, int share) { return sum + static_cast<std::size_t>(share); });
  const auto rows = rank == 0 ? 1 : static_cast<std::size_t>(array.extents.extents[0]);
  if (total_shares > 1 && rows % total_shares != 0)
    throw_error({detail::quoted(array.name), " has ", rows, " rows, which are not ", rule.file.size(),
                 " tensors with these row_shares"},
                {"correct the rule for ", detail::quoted(rule.model)});
  std::vector<stored_array> parts;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < rule.file.size(); ++i) {
    stored_array& part = parts.emplace_back(array);
    part.name = (rule.prefixed ? prefix : std::string()) + with_stars(rule.file[i], stars);
    if (rule.file.size() > 1) part.extents.extents[0] = static_cast<int>(rows / total_shares) * shares[i];
    part.location =
        array.location.part(offset, array.location.bytes / total_shares * static_cast<std::size_t>(shares[i]));
    offset += part.location.bytes;
    set_order(part, layout, rule.transposed);
  }
  return parts;
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> in_file(const std::vector<stored_array>& arrays,
                                                          const name_map& names, const std::string& prefix,
                                                          file_layout layout) {
  for (const name_rule& rule : names.rules) require_valid(rule);
  std::vector<stored_array> stored;
  std::set<std::string_view> given;
  stored.reserve(arrays.size());
  for (const stored_array& array : arrays) {
    std::vector<std::string_view> stars;
    const auto rule = std::find_if(names.rules.begin(), names.rules.end(), [&](const name_rule& candidate) {
      stars.clear();
      return find_stars(candidate.model, array.name, stars);
    });
    if (rule == names.rules.end()) {
      stored.push_back(array);
      stored.back().name.insert(0, prefix);
      set_order(stored.back(), layout, false);
      continue;
    }
    for (stored_array& part : parts_of(array, *rule, stars, prefix, layout)) stored.push_back(std::move(part));
  }
  for (const stored_array& array : stored)
    if (!given.insert(array.name).second)
      throw_error({"two arrays of the model have the name ", detail::quoted(array.name), " in the file"},
                  {"correct the rules of the names"});
  return stored;
}

GPIPE_COLD inline bool has_one_order(const stored_array& a, const stored_array& b) {
  return a.order == b.order && a.extents == b.extents;
}

GPIPE_COLD GPIPE_INLINE std::string layout_text(const std::vector<stored_array>& arrays, const name_map& names,
                                                file_layout layout) {
  const auto torch = in_file(arrays, names, ""), ours = in_file(arrays, names, "", file_layout::gpipe);
  for (std::size_t i = 0; i < torch.size(); ++i)
    if (!has_one_order(torch[i], ours[i])) return layout == file_layout::gpipe ? "gpipe" : "pytorch";
  return "";
}

GPIPE_COLD GPIPE_INLINE file_layout layout_of(file_layout asked, const safetensors_set& set,
                                              const std::vector<found_array>& file,
                                              const std::vector<stored_array>& arrays, const name_map& names,
                                              const std::string& prefix, std::string& undecided) {
  undecided.clear();
  if (asked != file_layout::automatic) return asked;
  bool of_checkpoint = false;
  for (const safetensors_file& source : set.files()) {
    of_checkpoint = of_checkpoint || source.metadata().contains("gpipe.steps");
    const auto text = source.metadata().find("gpipe.layout");
    if (text == source.metadata().end()) continue;
    if (text->second == "pytorch") return file_layout::pytorch;
    if (text->second == "gpipe") return file_layout::gpipe;
    throw_error({"the file's gpipe.layout is ", detail::quoted(text->second), ", which is none"},
                {"give load_options::layout, or use a newer gpipe"}, {.file = source.path()});
  }
  if (of_checkpoint) return file_layout::gpipe;
  const auto torch = in_file(arrays, names, prefix), ours = in_file(arrays, names, prefix, file_layout::gpipe);
  const auto has_shape = [](const found_array& found, const shape& extents) {
    return std::equal(found.shape.begin(), found.shape.end(), extents.extents, extents.extents + extents.rank);
  };
  bool counts_batches = false;  // as PyTorch's batch norm does, and no file of gpipe
  for (const found_array& found : file) {
    counts_batches = counts_batches || found.name.ends_with("num_batches_tracked");
    for (std::size_t i = 0; i < torch.size(); ++i) {
      if (torch[i].name != found.name || has_one_order(torch[i], ours[i])) continue;
      const bool first = has_shape(found, torch[i].extents), second = has_shape(found, ours[i].extents);
      if (first != second) {
        undecided.clear();
        return first ? file_layout::pytorch : file_layout::gpipe;
      }
      if (first && undecided.empty()) undecided = torch[i].name;
    }
  }
  if (counts_batches) undecided.clear();
  return file_layout::pytorch;
}

GPIPE_COLD GPIPE_INLINE void throw_undecided(const std::string& array, const std::string& file) {
  throw_error({"the file does not say in which order it has the elements of ", detail::quoted(array),
               ", and PyTorch's shapes are ours"},
              {"give load_options{.layout = file_layout::pytorch} for a file of PyTorch, or file_layout::gpipe for one "
               "that an older gpipe has saved"},
              {.file = file});
}

GPIPE_COLD GPIPE_INLINE std::string prefix_of(const std::vector<found_array>& file, const name_map& names) {
  std::string longest;
  for (const std::string& prefix : names.prefixes)
    if (prefix.size() > longest.size() &&
        std::any_of(file.begin(), file.end(), [&](const found_array& array) { return array.name.starts_with(prefix); }))
      longest = prefix;
  return longest;
}
GPIPE_COLD GPIPE_INLINE std::string saved_prefix(const name_map& names) {
  return names.prefixes.empty() ? std::string() : names.prefixes.front();
}

GPIPE_COLD GPIPE_INLINE void forgive_names(load_report& report, const std::vector<stored_array>& wanted,
                                           const name_map& names, const std::string& prefix) {
  std::vector<std::string_view> stars;
  std::erase_if(report.unexpected, [&](std::string_view name) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    return std::any_of(names.ignored.begin(), names.ignored.end(),
                       [&](const std::string& pattern) { return find_stars(pattern, name, stars); });
  });
  if (!names.tied_once) return;
  std::set<std::string_view> twins;
  for (const stored_array& array : wanted)
    if (array.copy) twins.insert(array.name);
  std::erase_if(report.missing, [&](const std::string& name) { return twins.contains(name); });
}

GPIPE_COLD GPIPE_INLINE std::uint64_t hash_of(const name_map& names) {
  hash sum;
  const auto add = [&sum](const auto& number) { sum.add(reinterpret_cast<const std::byte*>(&number), sizeof number); };
  const auto add_text = [&](const std::string& text) {
    add(text.size());
    sum.add(reinterpret_cast<const std::byte*>(text.data()), text.size());
  };
  const auto add_texts = [&](const std::vector<std::string>& texts) {
    add(texts.size());
    for (const std::string& text : texts) add_text(text);
  };
  add(names.rules.size());
  for (const name_rule& rule : names.rules) {
    add_texts(rule.file);
    add_text(rule.model);
    add(rule.transposed);
    add(rule.row_shares.size());
    for (const int share : rule.row_shares) add(share);
    add(rule.prefixed);
  }
  add_texts(names.ignored);
  add_texts(names.prefixes);
  add(names.tied_once);
  return sum.value();
}

}  // namespace gpipe::detail
