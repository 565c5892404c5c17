#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

namespace detail {

struct device_field {
  std::string_view name;
  std::int64_t device_spec::*member;
  std::int64_t min;
};
inline constexpr device_field device_fields[] = {
    {"float32", &device_spec::float32, 1},
    {"float64", &device_spec::float64, 0},
    {"half", &device_spec::half, 0},
    {"convolution", &device_spec::convolution, 0},
    {"other", &device_spec::other, 0},
    {"memory_bytes_per_second", &device_spec::memory_bytes_per_second, 1},
    {"parameter_bytes_per_second", &device_spec::parameter_bytes_per_second, 0},
    {"link_bytes_per_second", &device_spec::link_bytes_per_second, 1},
    {"link_latency_ns", &device_spec::link_latency_ns, 0},
    {"launch_ns", &device_spec::launch_ns, 0},
    {"memory_bytes", &device_spec::memory_bytes, 1},
};

}  // namespace detail

/// Writes a device's rates as lines of a CSV file, which `read_device` reads:
///
///     quantity,value
///     float32,87767900000
inline void write_device(const std::string& path, const device_spec& device) {
  write_file(path, [&](std::ostream& out) {
    out << "quantity,value\n";
    for (const detail::device_field& field : detail::device_fields)
      out << field.name << ',' << device.*field.member << '\n';
  });
}

/// Reads a file of `write_device`, for example a measured device. A malformed line is an error with its number.
GPIPE_COLD inline device_spec read_device(const std::string& path) {
  const std::string remedy = "give a line of `bash examples/run plan measure`: a quantity, a comma, a whole number";
  std::istringstream file(read_file(path));
  device_spec device{.name = "measured device"};
  bool given[std::size(detail::device_fields)]{};
  std::string text;
  for (long line = 1; std::getline(file, text); ++line) {
    const auto fail = [&](const std::string& wrong) { throw error(wrong, remedy, {.file = path, .line = line}); };
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (line == 1) {
      if (text != "quantity,value") throw error("the header is missing", "begin with quantity,value", {.file = path});
      continue;
    }
    const std::size_t comma = (std::min)(text.find(','), text.size());
    const std::string_view name = std::string_view(text).substr(0, comma);
    std::size_t i = 0;
    while (i < std::size(given) && detail::device_fields[i].name != name) ++i;
    if (i == std::size(given)) fail(detail::quoted(name) + " is no quantity of a device");
    const detail::device_field& field = detail::device_fields[i];
    if (given[i]) fail(std::string(name) + " appears twice");
    const char* const last = text.data() + text.size();
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data() + (std::min)(comma + 1, text.size()), last, value);
    constexpr std::int64_t max = (std::numeric_limits<std::int64_t>::max)() / 1000;
    if (failure != std::errc() || end != last || value < field.min || value > max)
      fail(std::string(name) + " is not a whole number from " + std::to_string(field.min) + " to " +
           std::to_string(max));
    device.*field.member = value;
    given[i] = true;
  }
  for (std::size_t i = 0; i < std::size(given); ++i)
    if (!given[i]) throw error(std::string(detail::device_fields[i].name) + " is missing", remedy, {.file = path});
  return device;
}

}  // namespace gpipe
