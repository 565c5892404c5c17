#pragma once

#include <doctest/doctest.h>

#include <gpipe/record/file/file_operations.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>

// Files of a test, and calls of the system that fail.

namespace checkpoints {

/// A folder of its own, removed at the end. It is in memory where there is such a file system: thousands of files reach
/// a disk too slowly.
struct memory_folder {
  std::string path;
  explicit memory_folder(const std::string& name) {
    const bool in_memory = ::access("/dev/shm", W_OK | X_OK) == 0;
    const auto root = in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
    path = (root / ("gpipe-" + name + "-" + std::to_string(::getpid()))).string();
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  memory_folder(const memory_folder&) = delete;
  ~memory_folder() {
    std::error_code unknown;
    std::filesystem::remove_all(path, unknown);
  }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

inline std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string text(in ? static_cast<std::size_t>(in.tellg()) : 0, '\0');
  in.seekg(0).read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

inline void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

template <class Call>
std::string complaint(Call&& call) {
  try {
    call();
  } catch (const gpipe::error& e) {
    return e.what();
  }
  return "";
}

/// The call throws an error with this text.
template <class Call>
void refuses(Call&& call, const char* text) {
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), gpipe::error);
}

inline bool is_json(const std::string& text) {
  const std::string file = "f";
  return complaint([&] {
           gpipe::detail::json_reader json(text, "the text", file);
           json.skip();
           json.end();
         }) == "";
}

inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

/// The header that safetensors 0.8.0 of PyPI writes for five tensors of five types.
inline std::string reference_header() {
  return from_hex(
      "40010000000000007b225f5f6d657461646174615f5f223a7b226b223a22765c74c3a9227d2c2261223a7b226474797065223a224636"
      "34222c227368617065223a5b315d2c22646174615f6f666673657473223a5b302c385d7d2c2262223a7b226474797065223a22463332"
      "222c227368617065223a5b322c335d2c22646174615f6f666673657473223a5b382c33325d7d2c2263223a7b226474797065223a2246"
      "3332222c227368617065223a5b302c345d2c22646174615f6f666673657473223a5b33322c33325d7d2c22c3a45c225c6e5c75303030"
      "317f2f223a7b226474797065223a2242463136222c227368617065223a5b5d2c22646174615f6f666673657473223a5b33322c33345d"
      "7d2c2268223a7b226474797065223a225538222c227368617065223a5b335d2c22646174615f6f666673657473223a5b33342c33375d"
      "7d7d2020");
}

/// Reads the header of a file of `size` bytes that begins with `text`.
inline gpipe::detail::safetensors_header parsed(const std::string& text, std::uint64_t size) {
  const std::uint64_t length = gpipe::detail::header_length(std::as_bytes(std::span(text)), size, "f");
  if (text.size() - 8 < length) throw gpipe::error("the text ends in the header", "", {.file = "f"});
  return gpipe::detail::parse_header(std::string_view(text).substr(8, length), size - 8 - length, "f");
}

}  // namespace checkpoints
