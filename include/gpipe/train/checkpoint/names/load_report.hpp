#pragma once

#include <string>
#include <vector>

namespace gpipe {

/// The arrays of a file that fit a model, by name and shape. The names are those in the file.
struct load_report {
  std::vector<std::string> loaded{};
  std::vector<std::string> missing{};     ///< in the model alone
  std::vector<std::string> unexpected{};  ///< in the file alone
  std::vector<std::string> misshaped{};   ///< in both: "0.weight (file 8 x 4, model 8 x 5)"
};

}  // namespace gpipe
