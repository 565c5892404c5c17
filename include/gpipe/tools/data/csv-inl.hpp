#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gpipe/core/text/parse_number.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/tools/data/csv.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD inline bool is_missing(std::string_view word) {
  if (word.size() > 5) return false;
  std::string letters(word);
  for (char& c : letters) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view missing : {"", "nan", "-nan", "+nan", "na", "n/a", "null", "none"})
    if (letters == missing) return true;
  return false;
}

/// Reads rows, and adds path and line to errors.
class csv_reader {
 public:
  GPIPE_COLD csv_reader(const std::string& path, const std::vector<csv_field>& fields, const csv_options& options)
      : path_(path), fields_(fields), options_(options), numbers_(fields.size()), labels_(fields.size()) {
    bool any = false;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const csv_field& field = fields[f];
      if (field.columns < 1) fail(concat({"columns is ", field.columns}), "choose at least 1");
      if (field.classes < 0) fail(concat({"classes is ", field.classes}), "choose at least 1, or 0 for numbers");
      const auto named = static_cast<int>(field.from.size());
      if (field.classes > 0 && (named > 0 ? named : field.columns) != 1)
        fail(concat({"columns is ", named > 0 ? named : field.columns, " for the labels ", detail::quoted(field.name)}),
             "choose 1");
      by_name_ = by_name_ || named > 0;
      for (int c = 0; c < field.columns; ++c)
        columns_.push_back({field.name.empty() ? nullptr : &field, &numbers_[f], &labels_[f], 0});
      any = any || !field.name.empty();
    }
    if (!any) fail("no field has a name", "name at least one");
    for (const csv_field& field : fields)
      if (by_name_ && field.from.empty())
        fail(concat({"the field ", detail::quoted(field.name), " has no .from, but another field has"}),
             "give every field the names of its columns, or none");
    if (by_name_ && !options.header) fail("a field has .from, and .header is false", "give .header = true");
    file_.emplace(path);
  }

  GPIPE_COLD dataset read() {
    std::string text;
    std::size_t rows = 0;
    long blank = 0;  // the first blank line after the last row
    while (read_record(text)) {
      if (text.find('\0') != std::string::npos) fail("is binary", "give lines of text: " + expected());
      if (text.find_first_not_of(' ') == std::string::npos) {
        if (blank == 0) blank = line_;
        continue;
      }
      if (blank > 0) {
        line_ = blank;
        fail(concat({"has 0 columns, not ", columns_.size()}), "give " + expected());
      }
      if (rows == max_csv_rows)
        fail(concat({"is a row after the first ", max_csv_rows}), "give a file that ends, with fewer rows");
      if (options_.header && line_ == 1) {
        split(text);
        if (by_name_) find_columns();
        continue;
      }
      read_row(text);
      ++rows;
    }
    line_ = -1;
    const bool left_out = rows > 0 &&
                          std::all_of(numbers_.begin(), numbers_.end(), [](const auto& n) { return n.empty(); }) &&
                          std::all_of(labels_.begin(), labels_.end(), [](const auto& l) { return l.empty(); });
    if (rows == 0) fail("is empty", "give lines of " + expected());
    if (left_out) fail("has a missing value in every row", "choose missing_values::fill, or other columns");
    dataset data;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const csv_field& field = fields_[f];
      const std::size_t width = by_name_ ? field.from.size() : static_cast<std::size_t>(field.columns);
      if (field.name.empty()) continue;
      if (field.classes > 0 && field.unread) data.with_unread(field.name, 1, labels_[f]);
      else if (field.classes > 0) data.with(field.name, 1, labels_[f]);
      else if (field.unread) data.with_unread(field.name, width, numbers_[f]);
      else data.with(field.name, width, numbers_[f]);
      numbers_[f] = {};
      labels_[f] = {};
    }
    return data;
  }

 private:
  struct column {
    const csv_field* field;  // null: skipped
    std::vector<float>* numbers;
    std::vector<std::int32_t>* labels;
    std::size_t position;  // in the columns of the field
  };

  [[noreturn]] void fail(const std::string& wrong, const std::string& remedy) const {
    throw error(wrong, remedy, {.file = path_, .line = line_});
  }

  [[noreturn]] GPIPE_COLD void refuse(std::size_t number, std::string_view word, const char* reason) const {
    std::string remedy = "give " + expected();
    if (line_ == 1 && !options_.header) remedy = "if line 1 is a header, give .header = true; else " + remedy;
    fail(concat({"column ", number + 1, ": ", detail::quoted(word), reason}), remedy);
  }

  /// Adds a line to the text, or its first characters if it is too long.
  GPIPE_COLD bool read_line(std::string& text) {
    const std::size_t old_size = text.size();
    for (int c = file_->next(); c != file_stream::end; c = file_->next()) {
      if (c == '\n') return true;
      text += static_cast<char>(c);
      if (text.size() > longest_csv_line) return true;
    }
    return text.size() > old_size;
  }

  /// Reads a line, and the following ones while a quote is open. The end of an inner line becomes a space.
  GPIPE_COLD bool read_record(std::string& text) {
    text.clear();
    line_ = next_line_;
    bool is_quoted = false;
    for (std::size_t position = 0;;) {
      const bool found = read_line(text);
      if (!found && !is_quoted) return false;
      if (!found) fail("a quote is not closed", "close it, or double a quote that is part of a text");
      ++next_line_;
      if (text.size() > longest_csv_line)
        fail(concat({"has more than ", longest_csv_line, " characters"}), "give lines of " + expected());
      if (line_ == 1 && position == 0 && text.starts_with("\xef\xbb\xbf"))
        text.erase(0, 3);  // the mark that editors write
      if (!text.empty() && text.back() == '\r') text.pop_back();
      // A quote opens at the start of a value, and only there.
      for (; position < text.size(); ++position) {
        if (text[position] != '"') continue;
        const std::size_t previous = text.find_last_not_of(' ', position - 1);
        if (is_quoted) is_quoted = false;
        else
          is_quoted = position == 0 || previous == text.npos || text[previous] == options_.separator ||
                      text[position - 1] == '"';
      }
      if (!is_quoted) return true;
      text += ' ';
      position = text.size();
    }
  }

  /// Splits a line at its separators into `cells_`.
  GPIPE_COLD void split(std::string_view text) {
    cell_count_ = 0;
    std::size_t position = 0;
    for (bool more = true; more;) {
      if (cells_.size() == cell_count_) cells_.emplace_back();
      std::string& cell = cells_[cell_count_++];
      cell.clear();
      while (position < text.size() && text[position] == ' ') ++position;
      if (position < text.size() && text[position] == '"') {
        for (++position; position < text.size(); ++position) {
          if (text[position] == '"' && (++position == text.size() || text[position] != '"')) break;
          cell += text[position];
        }
      }
      const std::size_t stop = (std::min)(text.find(options_.separator, position), text.size());
      cell += text.substr(position, stop - position);
      cell.resize(cell.find_last_not_of(' ') + 1);
      more = stop < text.size();
      position = stop + 1;
    }
  }

  /// Finds the columns of the file by the names in its header, which is in `cells_`.
  GPIPE_COLD void find_columns() {
    const std::vector<std::string> names(cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(cell_count_));
    columns_.assign(names.size(), {nullptr, nullptr, nullptr, 0});
    for (std::size_t f = 0; f < fields_.size(); ++f)
      for (std::size_t k = 0; k < fields_[f].from.size(); ++k) {
        const std::string& wanted = fields_[f].from[k];
        const auto found = std::find(names.begin(), names.end(), wanted);
        if (found == names.end()) {
          const std::string meant = meant_by(wanted, names);
          std::string choices;
          for (const std::string& name : names) choices += (choices.empty() ? "" : ", ") + detail::quoted(name);
          fail(concat({"the header has no column ", detail::quoted(wanted)}),
               meant.empty() ? "choose among " + choices : "did you mean " + detail::quoted(meant) + "?");
        }
        if (std::find(found + 1, names.end(), wanted) != names.end())
          fail(concat({"the header has two columns ", detail::quoted(wanted)}), "rename one of them");
        column& target = columns_[static_cast<std::size_t>(found - names.begin())];
        if (target.field != nullptr)
          fail(concat({"the column ", detail::quoted(wanted), " is named twice"}), "name it in one field");
        target = {&fields_[f], &numbers_[f], &labels_[f], k};
      }
  }

  GPIPE_COLD void read_row(const std::string& text) {
    split(text);
    const std::size_t count = text.empty() ? 0 : cell_count_;
    if (count > columns_.size()) fail(concat({"has more than ", columns_.size(), " columns"}), "give " + expected());
    if (count < columns_.size())
      fail(concat({"has ", count, " columns, not ", columns_.size()}),
           count == 1 && text.find_first_of(";\t") != text.npos
               ? "give the .separator of the file; expected are " + expected()
               : "give " + expected());
    if (options_.missing == missing_values::drop_row)
      for (std::size_t c = 0; c < count; ++c)
        if (columns_[c].field != nullptr && is_missing(cells_[c])) return;
    if (by_name_)
      for (std::size_t f = 0; f < fields_.size(); ++f)
        if (fields_[f].classes == 0) numbers_[f].resize(numbers_[f].size() + fields_[f].from.size());
    for (std::size_t c = 0; c < count; ++c)
      if (columns_[c].field != nullptr) read_value(c, cells_[c]);
  }

  GPIPE_COLD void read_value(std::size_t number, std::string_view word) {
    const column& target = columns_[number];
    const bool is_label = target.field->classes > 0;
    const char *cursor = word.data(), *const stop = cursor + word.size();
    float value = 0;
    std::int32_t label = 0;
    if (is_missing(word)) {
      if (options_.missing == missing_values::refuse || is_label)
        fail(concat({"column ", number + 1, ": ", detail::quoted(word),
                     is_label ? " is not a label" : " is not a number", ": it is missing"}),
             is_label ? "give a label, or .missing = missing_values::drop_row, which leaves such rows out"
                      : "give a number, or .missing = missing_values::drop_row, which leaves such rows out, or "
                        "missing_values::fill, which puts .fill in its place");
      value = options_.fill;
    } else {
      if (word.size() > 1 && *cursor == '+' && (cursor[1] == '.' || (cursor[1] >= '0' && cursor[1] <= '9'))) ++cursor;
      const auto [next, failure] =
          is_label ? std::from_chars(cursor, stop, label) : detail::parse_number(cursor, stop, value);
      const char* const kind = is_label ? " is not a label" : " is not a number";
      if (failure == std::errc::result_out_of_range) {
        // A number that does not fit a float may be too near to 0: then it is 0.
        if (is_label)
          fail(concat({"column ", number + 1, ": ", detail::quoted(word), " does not fit a label"}),
               "give smaller numbers");
        double wide = 0;
        const bool is_wide = detail::parse_number(cursor, next, wide).ec == std::errc{};
        const std::string_view digits(cursor, static_cast<std::size_t>(next - cursor));
        if (is_wide ? !(std::fabs(wide) < 1) : digits.find("e-") == digits.npos && digits.find("E-") == digits.npos)
          fail(concat({"column ", number + 1, ": ", detail::quoted(word), " does not fit a float"}),
               "give smaller numbers");
        value = static_cast<float>(wide);
      } else if (failure != std::errc{}) {
        refuse(number, word, kind);
      }
      if (next != stop) {
        if (!is_label && *next == ',' && options_.separator != ',')
          fail(concat({"column ", number + 1, ": ", detail::quoted(word), kind}),
               "write numbers with a point: a decimal comma is not read");
        refuse(number, word, kind);
      }
    }
    if (is_label && (label < 0 || label >= target.field->classes))
      fail(concat({"label ", label, " is out of range"}),
           concat({"choose labels in 0 ... ", target.field->classes - 1}));
    if (is_label) target.labels->push_back(label);
    else if (by_name_)
      target.numbers->end()[static_cast<std::ptrdiff_t>(target.position) -
                            static_cast<std::ptrdiff_t>(target.field->from.size())] = value;
    else target.numbers->push_back(value);
  }

  /// "64 numbers and a label, separated by commas"
  GPIPE_COLD std::string expected() const {
    std::string text;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const csv_field& field = fields_[f];
      const std::size_t columns = field.from.empty() ? static_cast<std::size_t>(field.columns) : field.from.size();
      if (f > 0) text += f + 1 == fields_.size() ? " and " : ", ";
      if (field.name.empty()) text += std::to_string(columns) + " skipped";
      else if (field.classes > 0) text += "a label";
      else text += columns == 1 ? "a number" : std::to_string(columns) + " numbers";
    }
    return text + ", separated by " +
           (options_.separator == ',' ? "commas" : detail::quoted(std::string(1, options_.separator)));
  }

  const std::string& path_;
  const std::vector<csv_field>& fields_;
  const csv_options options_;
  bool by_name_ = false;
  long line_ = -1, next_line_ = 1;
  std::optional<file_stream> file_;
  std::vector<std::vector<float>> numbers_;
  std::vector<std::vector<std::int32_t>> labels_;
  std::vector<column> columns_;
  std::vector<std::string> cells_;  // of a line, without their quotes
  std::size_t cell_count_ = 0;
};

}  // namespace detail

GPIPE_COLD GPIPE_INLINE dataset read_csv(const std::string& path, const std::vector<csv_field>& fields,
                                         const csv_options& options) {
  return detail::csv_reader(path, fields, options).read();
}
GPIPE_COLD GPIPE_INLINE dataset read_csv(const std::string& path, int width, int classes) {
  if (classes < 1) detail::throw_error({"classes is ", classes}, {"choose at least 1"});
  return read_csv(path, {{.name = "inputs", .columns = width}, {.name = "labels", .classes = classes}});
}

}  // namespace gpipe
