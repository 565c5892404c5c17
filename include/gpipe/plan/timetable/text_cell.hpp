#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>

namespace gpipe::detail {

/// A cell of a schedule's text, and its column, counted from 0.
struct text_cell {
  cell action;
  int column = 0;
};

/// Throws for a cell of a schedule's text; rows and columns count from 0.
[[noreturn]] GPIPE_COLD inline void bad_cell(const std::string& file, int row, int column,
                                             std::initializer_list<text_part> wrong,
                                             std::initializer_list<text_part> remedy) {
  const std::string description = concat(wrong);
  throw_error({"column ", column + 1, description}, remedy, location{.file = file, .line = row + 1});
}

/// Whether a cell of a schedule's text moves data or parameters: it is no computation.
GPIPE_COLD inline bool moves_data(std::string_view text) {
  take_number(text);
  for (const std::string_view word : {"SEND_F", "SEND_B", "RECV_F", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B", "UNSHARD",
                                      "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"})
    if (text.substr(0, word.size()) == word) {
      std::string_view remaining = text.substr(word.size());
      take_number(remaining);
      if (remaining.empty()) return true;
    }
  return false;
}

constexpr std::string_view blanks = " \t\r\n";
GPIPE_COLD inline std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view{} : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The computations of a schedule's text in PyTorch's format (see `schedule_table`), row by row. Their order is not
/// checked: the rows may make no schedule. Throws for a word that is no cell, with row and column, and for a text
/// without rows. `name` is the file's name in errors.
GPIPE_COLD inline std::vector<std::vector<text_cell>> read_schedule_text(const std::string& name,
                                                                         std::string_view text) {
  std::vector<std::vector<text_cell>> rows;
  const auto cell_of = [&](std::string_view word, int column) -> cell {
    std::string_view remaining = word;
    const int stage = take_number(remaining);
    const char head = remaining.empty() ? '?' : remaining[0];
    if (!remaining.empty()) remaining.remove_prefix(1);
    const int m = take_number(remaining);
    const action_kind kind = head == 'F'   ? action_kind::forward
                             : head == 'B' ? action_kind::backward
                             : head == 'I' ? action_kind::backward_input
                             : head == 'W' ? action_kind::backward_parameters
                                           : action_kind::idle;
    if (stage < 0 || m < 0 || kind == action_kind::idle || !remaining.empty())
      bad_cell(name, static_cast<int>(rows.size()) - 1, column, {" is '", word.substr(0, 80), "'"},
               {"write a stage, F, B, I or W, and a micro-batch, such as 0F3, or nothing while idle"});
    return {kind, stage, m};
  };
  constexpr std::string_view overlap = ")OVERLAP_F_B", mark = "\xEF\xBB\xBF";
  if (text.substr(0, mark.size()) == mark) text.remove_prefix(mark.size());
  text = text.substr(0, text.find_last_not_of(blanks) + 1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = (std::min)(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    auto& row = rows.emplace_back();
    for (int column = 0;; ++column) {
      const std::size_t comma = line.find(',');
      std::string_view word = without_blanks(line.substr(0, comma));
      if (const std::size_t both = word.find(overlap); both != word.npos && word[0] == '(') {
        const std::size_t between = word.find(';');
        row.push_back({cell_of(word.substr(1, between - 1), column), column});
        if (between < both) row.push_back({cell_of(word.substr(between + 1, both - between - 1), column), column});
      } else if (!word.empty() && word != "." && !moves_data(word)) {
        row.push_back({cell_of(word, column), column});
      }
      if (comma == line.npos) break;
      line.remove_prefix(comma + 1);
    }
  }
  if (rows.empty())
    throw_error({"the schedule has no row"}, {"write a row of cells for each worker"}, location{.file = name});
  return rows;
}

}  // namespace gpipe::detail
