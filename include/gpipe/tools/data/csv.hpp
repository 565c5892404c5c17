#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace broken {

template <bool Holds, class... Given>
struct file_has_fields {
  static_assert(Holds,
                "gpipe: read_csv needs the fields of the file, from left to right: read_csv(\"a.csv\", "
                "{{\"inputs\", 64}, {.name = \"labels\", .classes = 10}}), or read_csv(\"a.csv\", 64, 10), which means "
                "the same");
};

}  // namespace broken

/// Columns of a file that make a field: numbers (float), or one column of labels (int32). A number may be `inf`.
struct csv_field {
  std::string name{};  ///< empty: the columns are skipped, whatever they hold
  int columns = 1;
  int classes = 0;      ///< above 0: one column of labels in 0 ... classes - 1
  bool unread = false;  ///< the model need not read it
  /// The names of the columns in the header, in the order of the field. Then `columns` is their number, and a column of
  /// the file that no field names is skipped.
  std::vector<std::string> from{};
};

/// How to treat a missing value: an empty one, or `nan`, `na`, `n/a`, `null` or `none` in upper or lower case.
enum class missing_values : std::uint8_t {
  refuse,    ///< an error
  drop_row,  ///< the row is left out
  fill       ///< a number becomes `csv_options::fill`; a missing label is an error
};

struct csv_options {
  char separator = ',';
  bool header = false;  ///< the first line has names
  missing_values missing = missing_values::refuse;
  float fill = 0;
};

/// Reads a file of separated numbers: rows of the fields, from left to right, or by the names of the header. A value
/// may be in quotes, as RFC 4180 describes: there a separator and the end of a line are text, and "" is a quote. Lines
/// at the end may be blank. Anything else is an error with its line and column. Data without an end, such as a pipe,
/// are refused before they fill the memory.
///
///     read_csv("digits.csv", {{"inputs", 64}, {.name = "labels", .classes = 10}})
///     read_csv("houses.csv", {{"", 1}, {"inputs", 8}, {"targets", 2}}, {.separator = ';', .header = true})
///     read_csv("people.csv", {{.name = "inputs", .from = {"age", "income"}}, {.name = "targets", .from = {"price"}}},
///              {.header = true, .missing = missing_values::drop_row})
dataset read_csv(const std::string& path, const std::vector<csv_field>& fields, const csv_options& options = {});

/// Rows of `width` numbers, and a label in 0 ... `classes` - 1: the fields "inputs" and "labels".
dataset read_csv(const std::string& path, int width, int classes);
// Without fields, or with a number alone: only for the error message.
template <class... Width>
requires(sizeof...(Width) == 0 || (std::is_arithmetic_v<Width> && ...))  //
    dataset read_csv(const std::string&, Width...) {
  static_assert(sizeof(broken::file_has_fields<(sizeof...(Width) > 9), Width...>) > 0);
  return {};
}

namespace detail {

/// Limits of a file.
inline constexpr std::size_t longest_csv_line = std::size_t{1} << 20, max_csv_rows = std::size_t{1} << 24;

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/data/csv-inl.hpp>
#endif
