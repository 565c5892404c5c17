#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// The numbers of residual_mlp.txt. residual_mlp.py writes that file and says what each number is.

namespace reference::residual_mlp {

inline constexpr int samples = 10, features = 6, width = 8, hidden = 12, classes = 3, blocks = 2, steps = 3;
inline constexpr int parameter_count = 555;

inline std::map<std::string, std::vector<double>> read_arrays() {
  std::ifstream file(std::filesystem::path(__FILE__).replace_extension(".txt"));
  const auto skip_line = [&] { file.ignore(std::numeric_limits<std::streamsize>::max(), '\n'); };
  std::map<std::string, std::vector<double>> arrays;
  for (std::string name; file >> name;) {
    if (name == "#") {
      skip_line();
      continue;
    }
    std::size_t size = 0;
    file >> size;
    skip_line();
    std::vector<double>& array = arrays[name];
    array.resize(size);
    for (double& number : array) file >> number;
    if (!file) throw std::runtime_error("residual_mlp.txt: the array " + name + " is incomplete");
  }
  return arrays;
}

/// An array of the file, such as "inputs" or "sgd.losses".
inline const std::vector<double>& array(const std::string& name) {
  static const std::map<std::string, std::vector<double>> arrays = read_arrays();
  return arrays.at(name);
}

}  // namespace reference::residual_mlp
