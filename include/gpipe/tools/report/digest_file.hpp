#pragma once

#include <charconv>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gpipe/record/digest.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

/// Writes a digest for comparison in another process: a line of counts, the layers, and one line per call.
///
///     gpipe digest 1 2 3              layers, micro-batches, calls
///     linear<4>
///     0 0 9e3779b97f4a7c15 ...        step, its calls before, hashes in the order of `digest::hashes`
GPIPE_COLD inline void write_digest(const std::string& path, const digest& source) {
  write_file(path, [&](std::ostream& out) {
    out << detail::concat(
        {"gpipe digest ", source.layers().size(), " ", source.micro_batches(), " ", source.calls(), "\n"});
    for (const std::string& layer : source.layers()) out << layer << '\n';
    for (std::size_t i = 0; i < source.calls(); ++i) {
      out << detail::concat({source.at(i).step, " ", source.at(i).before});
      for (const std::uint64_t bits : source.hashes(i)) {
        char digits[16];
        out << ' ';
        out.write(digits, std::to_chars(digits, digits + 16, bits, 16).ptr - digits);
      }
      out << '\n';
    }
  });
}

/// Reads a file of `write_digest`. Throws `error` if the file cannot be read or has another format.
GPIPE_COLD inline digest read_digest(const std::string& path) {
  const std::string contents = read_file(path);
  std::size_t next = 0;
  long line = 0;
  const auto require = [&](bool holds) {
    if (!holds)
      throw error("this file is not a digest", "give a file that write_digest wrote", {.file = path, .line = line});
  };
  std::string text;
  const char* cursor = nullptr;
  const auto next_line = [&] {
    ++line;
    const std::size_t end = contents.find('\n', next);
    require(end != std::string::npos);  // an unterminated line was cut off
    text = contents.substr(next, end - next);
    next = end + 1;
    cursor = text.c_str();
  };
  const auto number = [&](auto& result, int base = 10) {
    if (*cursor == ' ') ++cursor;
    const auto [end, wrong] = std::from_chars(cursor, text.c_str() + text.size(), result, base);
    require(wrong == std::errc{});
    cursor = end;
  };
  next_line();
  constexpr std::string_view title = "gpipe digest ";
  require(text.compare(0, title.size(), title) == 0);
  cursor += title.size();
  std::size_t layers = 0, calls = 0;
  int micro_batches = 0;
  number(layers), number(micro_batches), number(calls);
  require(micro_batches >= 0 && *cursor == 0);
  std::vector<std::string> names;
  for (std::size_t l = 0; l < layers; ++l) next_line(), names.push_back(text);
  // A hash takes at least two characters: an invalid count cannot request more memory than the file's size allows.
  const std::size_t hashes = 1 + layers * (3 * static_cast<std::size_t>(micro_batches) + 1);
  require(calls == 0 || hashes <= (contents.size() - next) / 2 / calls);
  digest found(std::move(names), micro_batches, calls);
  for (std::size_t i = 0; i < calls; ++i) {
    next_line();
    digest::call call{};
    number(call.step), number(call.before);
    for (std::uint64_t& bits : found.open()) number(bits, 16);
    require(*cursor == 0);
    found.close(call);
  }
  return found;
}

}  // namespace gpipe
