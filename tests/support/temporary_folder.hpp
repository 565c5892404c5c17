#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

/// The path of a folder that does not exist yet, and is removed at the end.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpipe.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    parent_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::permissions(parent_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(parent_, ignored);
  }

  std::string path() const { return parent_ + "/checkpoints"; }
  /// Beside the folder.
  std::string beside(const std::string& name) const { return parent_ + '/' + name; }
  /// The bytes of a file in the folder.
  std::string read(const std::string& name) const { return read_file(path() + '/' + name); }

  static std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  static void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

 private:
  std::string parent_;
};
