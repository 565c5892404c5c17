#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/text/parse_number.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

/// The mean and the deviation of each column of a field. Columns of different units, scaled by them, have the mean 0
/// and the deviation 1. Held-out rows and later rows are scaled by the numbers of the training rows, so their text is
/// saved with the model:
///
///     const column_norm norm(train, "inputs");
///     for (dataset* part : {&train, &held_out}) norm.apply(part->field<float>("inputs"));
///     training.save("run", {.texts = {{"inputs", norm.text()}}});
///     const column_norm loaded = column_norm::of_text(served.load("run").texts.at("inputs"));
struct column_norm {
  std::vector<double> mean{}, deviation{};

  column_norm() = default;
  /// Measures a field of float or double over all rows. A column of one value has the deviation 1. Throws `error` if
  /// there is no such field, if it has another type, or if a number is not finite.
  GPIPE_COLD column_norm(const dataset& data, std::string_view field) {
    std::size_t columns = 0;
    bool doubles = false;
    for (const data_field& candidate : data.fields())
      if (candidate.name == field) columns = candidate.size, doubles = candidate.type == dtype::float64;
    if (doubles) measure(data.field<double>(field), columns, field);
    else measure(data.field<float>(field), columns, field);
  }

  /// x = (x - mean) / deviation in each row, in place; and back. Throws `error` if `rows` are not whole rows, or if a
  /// mean has no deviation above 0.
  template <class Rows>
  void apply(Rows&& rows) const {
    each(rows, [](double x, double middle, double unit) { return (x - middle) / unit; });
  }
  template <class Rows>
  void undo(Rows&& rows) const {
    each(rows, [](double x, double middle, double unit) { return x * unit + middle; });
  }

  /// Mean and deviation of each column, separated by spaces. `of_text` returns the same numbers, bit for bit, and
  /// throws `error` for any other text.
  GPIPE_COLD std::string text() const {
    require_pairs();
    std::string result;
    char digits[32];
    for (std::size_t c = 0; c < mean.size(); ++c)
      for (const double x : {mean[c], deviation[c]})
        result.append(result.empty() ? "" : " ").append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
    return result;
  }
  GPIPE_COLD static column_norm of_text(std::string_view text) {
    column_norm found;
    const char *cursor = text.data(), *end = cursor + text.size();
    for (bool is_mean = true; cursor != end; is_mean = !is_mean) {
      double x = 0;
      const auto read = detail::parse_number(cursor, end, x);
      if (read.ec != std::errc{} || (read.ptr != end && *read.ptr != ' ')) break;
      (is_mean ? found.mean : found.deviation).push_back(x);
      cursor = read.ptr == end ? end : read.ptr + 1;
    }
    if (cursor != end || found.mean.size() != found.deviation.size() || found.mean.empty())
      detail::throw_error({"the text ", detail::quoted(text), " is not that of a column_norm"},
                          {"give one that text() has returned"});
    found.require_pairs();
    return found;
  }

 private:
  GPIPE_COLD void require_pairs() const {
    if (mean.size() != deviation.size() || mean.empty())
      detail::throw_error({"there are ", mean.size(), " means and ", deviation.size(), " deviations"},
                          {"give one of each for each column"});
    for (std::size_t c = 0; c < mean.size(); ++c)
      if (!(deviation[c] > 0) || !detail::is_finite(deviation[c]) || !detail::is_finite(mean[c]))
        detail::throw_error({"column ", c, " has the deviation ", detail::significant(deviation[c], 6),
                             " and the mean ", detail::significant(mean[c], 6)},
                            {"give finite numbers and a deviation above 0; 1 leaves a column's scale"});
  }

  template <class T>
  GPIPE_COLD void measure(std::span<const T> rows, std::size_t columns, std::string_view field) {
    mean.assign(columns, 0), deviation.assign(columns, 0);
    const double count = static_cast<double>(rows.size()) / static_cast<double>(columns);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!detail::is_finite(rows[i]))
        detail::throw_error({"field ", detail::quoted(field), " is not finite in row ", i / columns, ", column ",
                             i % columns, " (counted from 0)"},
                            {"correct the data"});
      mean[i % columns] += static_cast<double>(rows[i]);
    }
    for (double& m : mean) m /= count;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double off = static_cast<double>(rows[i]) - mean[i % columns];
      deviation[i % columns] += off * off;
    }
    for (std::size_t c = 0; c < columns; ++c) {
      deviation[c] = std::sqrt(deviation[c] / count);
      if (deviation[c] <= 1e-12 * std::abs(mean[c])) deviation[c] = 1;  // one value, but for rounding
    }
  }

  template <class Rows, class Scale>
  void each(Rows& rows, const Scale& scaled) const {
    require_pairs();
    const std::size_t columns = mean.size(), count = std::size(rows);
    if (count % columns != 0)
      detail::throw_error({"there are ", count, " numbers, which are no rows of ", columns, " columns"},
                          {"give whole rows of the field that was measured"});
    using number = std::remove_cvref_t<decltype(rows[0])>;
    for (std::size_t i = 0; i < count; ++i)
      rows[i] = static_cast<number>(scaled(static_cast<double>(rows[i]), mean[i % columns], deviation[i % columns]));
  }
};

}  // namespace gpipe
