#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/checkpoint/map_names.hpp>

namespace gpipe::detail {

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

/// The tensors that an array is by this rule.
GPIPE_COLD inline std::vector<stored_array> parts_of(const stored_array& array, const name_rule& rule,
                                                     const std::vector<std::string_view>& stars,
                                                     const std::string& prefix) {
  const auto rank = array.extents.rank;
  if (rule.transposed && rank != 2 && (rank != 4 || rule.file.size() > 1))
    throw_error({"the rule for ", detail::quoted(rule.model), " is transposed, but ", detail::quoted(array.name),
                 " has ", rank, rank == 1 ? " dimension" : " dimensions"},
                {"transpose matrices, and whole weights of convolutions, only"});
  std::vector<int> shares = rule.row_shares;
  if (shares.empty()) shares.assign(rule.file.size(), 1);
  const auto all = std::accumulate(shares.begin(), shares.end(), std::size_t{0},
                                   [](std::size_t sum, int one) { return sum + static_cast<std::size_t>(one); });
  const auto rows = rank == 0 ? 1 : static_cast<std::size_t>(array.extents.extents[0]);
  if (all > 1 && rows % all != 0)
    throw_error({detail::quoted(array.name), " has ", rows, " rows, which are not ", rule.file.size(),
                 " tensors with these row_shares"},
                {"correct the rule for ", detail::quoted(rule.model)});
  std::vector<stored_array> parts;
  std::size_t at = 0;
  for (std::size_t i = 0; i < rule.file.size(); ++i) {
    stored_array& part = parts.emplace_back(array);
    part.name = (rule.prefixed ? prefix : std::string()) + with_stars(rule.file[i], stars);
    if (rule.file.size() > 1) part.extents.extents[0] = static_cast<int>(rows / all) * shares[i];
    part.location = array.location.part(at, array.location.bytes / all * static_cast<std::size_t>(shares[i]));
    at += part.location.bytes;
    part.transposed = rule.transposed;
    auto& e = part.extents.extents;
    if (part.transposed && rank == 2) std::swap(e[0], e[1]);
    if (part.transposed && rank == 4) part.extents = {e[3], e[2], e[0], e[1]};
  }
  return parts;
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> in_file(const std::vector<stored_array>& arrays,
                                                          const name_map& names, const std::string& prefix) {
  for (const name_rule& rule : names.rules) require_valid(rule);
  std::vector<stored_array> all;
  std::set<std::string_view> given;
  all.reserve(arrays.size());
  for (const stored_array& array : arrays) {
    std::vector<std::string_view> stars;
    const auto rule = std::find_if(names.rules.begin(), names.rules.end(), [&](const name_rule& one) {
      stars.clear();
      return find_stars(one.model, array.name, stars);
    });
    if (rule == names.rules.end()) {
      all.push_back(array);
      all.back().name.insert(0, prefix);
      continue;
    }
    for (stored_array& part : parts_of(array, *rule, stars, prefix)) all.push_back(std::move(part));
  }
  for (const stored_array& one : all)
    if (!given.insert(one.name).second)
      throw_error({"two arrays of the model have the name ", detail::quoted(one.name), " in the file"},
                  {"correct the rules of the names"});
  return all;
}

GPIPE_COLD GPIPE_INLINE std::string prefix_of(const std::vector<found_array>& file, const name_map& names) {
  std::string longest;
  for (const std::string& prefix : names.prefixes)
    if (prefix.size() > longest.size() &&
        std::any_of(file.begin(), file.end(), [&](const found_array& one) { return one.name.starts_with(prefix); }))
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
  for (const stored_array& one : wanted)
    if (one.copy) twins.insert(one.name);
  std::erase_if(report.missing, [&](const std::string& name) { return twins.contains(name); });
}

GPIPE_COLD GPIPE_INLINE std::uint64_t hash_of(const name_map& names) {
  hash all;
  const auto add = [&all](const auto& number) { all.add(reinterpret_cast<const std::byte*>(&number), sizeof number); };
  const auto add_text = [&](const std::string& text) {
    add(text.size());
    all.add(reinterpret_cast<const std::byte*>(text.data()), text.size());
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
  return all.value();
}

}  // namespace gpipe::detail
