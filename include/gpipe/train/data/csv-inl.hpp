#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/train/data/csv.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace detail {

/// Reads rows, and knows the location of an error.
class csv_reader {
 public:
  csv_reader(const std::string& path, const std::vector<csv_field>& fields, const csv_options& how);
  dataset read();

 private:
  struct column {
    const csv_field* field;
    std::vector<float>* numbers;
    std::vector<std::int32_t>* labels;
  };

  [[noreturn]] void fail(const std::string& wrong, const std::string& remedy) const {
    throw error(wrong, remedy, {.file = path_, .line = line_});
  }
  bool read_line(std::string& text);
  void read_row(const std::string& text);
  const char* read_number(const char* at, const char* end, const char* stop, std::size_t number);
  std::string expected() const;

  const std::string& path_;
  const std::vector<csv_field>& fields_;
  const csv_options how_;
  long line_ = -1;
  std::optional<file_stream> file_;
  std::vector<std::vector<float>> numbers_;
  std::vector<std::vector<std::int32_t>> labels_;
  std::vector<column> columns_;
};

GPIPE_COLD GPIPE_INLINE csv_reader::csv_reader(const std::string& path, const std::vector<csv_field>& fields,
                                               const csv_options& how)
    : path_(path), fields_(fields), how_(how), numbers_(fields.size()), labels_(fields.size()) {
  bool any = false;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const csv_field& field = fields[f];
    if (field.columns < 1) fail(concat({"columns is ", field.columns}), "choose at least 1");
    if (field.classes < 0) fail(concat({"classes is ", field.classes}), "choose at least 1, or 0 for numbers");
    if (field.classes > 0 && field.columns != 1)
      fail(concat({"columns is ", field.columns, " for the labels ", detail::quoted(field.name)}), "choose 1");
    for (int c = 0; c < field.columns; ++c) columns_.push_back({&field, &numbers_[f], &labels_[f]});
    any = any || !field.name.empty();
  }
  if (!any) fail("no field has a name", "name at least one");
  file_.emplace(path);
}

/// "64 numbers and a label, separated by commas"
GPIPE_COLD GPIPE_INLINE std::string csv_reader::expected() const {
  std::string text;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const csv_field& field = fields_[f];
    if (f > 0) text += f + 1 == fields_.size() ? " and " : ", ";
    if (field.name.empty()) text += std::to_string(field.columns) + " skipped";
    else if (field.classes > 0) text += "a label";
    else text += field.columns == 1 ? "a number" : std::to_string(field.columns) + " numbers";
  }
  return text + ", separated by " + (how_.separator == ',' ? "commas" : detail::quoted(std::string(1, how_.separator)));
}

/// Reads a line, or its first characters if it is too long.
GPIPE_COLD GPIPE_INLINE bool csv_reader::read_line(std::string& text) {
  text.clear();
  for (int c = file_->next(); c != file_stream::end; c = file_->next()) {
    if (c == '\n') return true;
    text += static_cast<char>(c);
    if (text.size() > longest_csv_line) return true;
  }
  return !text.empty();
}

/// Reads the column `number` from [at, end), up to its separator or the end of the line at `stop`.
GPIPE_COLD GPIPE_INLINE const char* csv_reader::read_number(const char* at, const char* end, const char* stop,
                                                            std::size_t number) {
  const column& into = columns_[number];
  const bool last = number + 1 == columns_.size(), is_label = into.field->classes > 0;
  const std::string_view word(at, static_cast<std::size_t>(stop - at));
  const auto wrong = [&](const char* what) {
    return concat({"column ", number + 1, ": ", detail::quoted(word), what});
  };
  if (last && stop != end) fail(concat({"has more than ", columns_.size(), " columns"}), "give " + expected());
  if (into.field->name.empty()) return stop;
  float value = 0;
  std::int32_t label = 0;
  const auto [next, failure] = is_label ? std::from_chars(at, stop, label) : std::from_chars(at, stop, value);
  if (failure == std::errc::result_out_of_range) {
    // A number that does not fit a float may be too near to 0: then it is 0.
    if (is_label) fail(wrong(" does not fit a label"), "give smaller numbers");
    double wide = 0;
    const bool is_wide = std::from_chars(at, next, wide).ec == std::errc{};
    const std::string_view digits(at, static_cast<std::size_t>(next - at));
    if (is_wide ? !(std::fabs(wide) < 1) : digits.find("e-") == digits.npos && digits.find("E-") == digits.npos)
      fail(wrong(" does not fit a float"), "give smaller numbers");
    value = static_cast<float>(wide);
  } else if (failure != std::errc{}) {
    fail(wrong(is_label ? " is not a label" : " is not a number"), "give " + expected());
  }
  if (std::any_of(next, stop, [](char c) { return c != ' '; }))
    fail(wrong(is_label ? " is not a label" : " is not a number"), "give " + expected());
  if (is_label && (label < 0 || label >= into.field->classes))
    fail(concat({"label ", label, " is out of range"}), concat({"choose labels in 0 ... ", into.field->classes - 1}));
  if (is_label) into.labels->push_back(label);
  else into.numbers->push_back(value);
  return stop;
}

GPIPE_COLD GPIPE_INLINE void csv_reader::read_row(const std::string& text) {
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const auto missing = [&] { fail(concat({"has ", c, " columns, not ", columns_.size()}), "give " + expected()); };
    if (c > 0) {
      if (at == end) missing();
      ++at;  // the separator
    }
    while (at != end && *at == ' ') ++at;
    if (at == end && !columns_[c].field->name.empty()) missing();
    at = read_number(at, end, std::find(at, end, how_.separator), c);
  }
}

GPIPE_COLD GPIPE_INLINE dataset csv_reader::read() {
  std::string text;
  std::size_t rows = 0;
  for (line_ = 1; read_line(text); ++line_) {
    if (text.size() > longest_csv_line)
      fail(concat({"has more than ", longest_csv_line, " characters"}), "give lines of " + expected());
    if (rows == max_csv_rows)
      fail(concat({"is a row after the first ", max_csv_rows}), "give a file that ends, with fewer rows");
    if (line_ == 1 && text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // the byte-order mark that editors write
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty() && file_->peek() == file_stream::end) break;
    if (text.find('\0') != std::string::npos) fail("is binary", "give lines of text: " + expected());
    if (how_.header && line_ == 1) continue;
    read_row(text);
    ++rows;
  }
  line_ = -1;
  if (rows == 0) fail("is empty", "give lines of " + expected());
  dataset data;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const csv_field& field = fields_[f];
    const auto width = static_cast<std::size_t>(field.columns);
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

}  // namespace detail

}  // namespace gpipe

namespace gpipe {

GPIPE_COLD GPIPE_INLINE dataset read_csv(const std::string& path, const std::vector<csv_field>& fields,
                                         const csv_options& how) {
  return detail::csv_reader(path, fields, how).read();
}
GPIPE_COLD GPIPE_INLINE dataset read_csv(const std::string& path, int width, int classes) {
  if (classes < 1) detail::throw_error({"classes is ", classes}, {"choose at least 1"});
  return read_csv(path, {{.name = "inputs", .columns = width}, {.name = "labels", .classes = classes}});
}

}  // namespace gpipe
