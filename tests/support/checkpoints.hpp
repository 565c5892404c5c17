#pragma once

#include <gpipe/record/file/file_operations.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gpipe/core/error.hpp>

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

inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace checkpoints
