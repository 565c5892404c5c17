#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/cost/profile.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/tools/drawing/escape.hpp>

#include <ostream>
#include <string>

namespace gpipe {

// change: a profile from a file; the reader goes next to it
/// Writes a header with one struct, `name`.
GPIPE_COLD inline void write_profile(std::ostream& out, const profile& p, const std::string& name = "measured") {
  out << "#pragma once\n\n#include <gpipe/plan/cost/profile.hpp>\n\n"
         "// The time of each layer for one micro-batch: forward, backward's input part, its parameter part; medians, "
         "in ns.\n"
      << "struct " << name << " {\n  static constexpr int micro_batch_size = " << std::to_string(p.micro_batch_size)
      << ";\n  static constexpr gpipe::measured_layer layers[] = {\n";
  for (int l = 0; l < p.count; ++l) {
    const measured_layer& line = p.layers[l];
    out << "      {" << std::to_string(line.position) << ", " << detail::json(line.layer) << ", "
        << std::to_string(line.forward_ns) << ", " << std::to_string(line.backward_input_ns) << ", "
        << std::to_string(line.backward_parameters_ns) << "},\n";
  }
  out << "  };\n};\n";
}

/// Throws `gpipe::error` with the path unless the file was written completely.
inline void write_profile(const std::string& path, const profile& p, const std::string& name = "measured") {
  write_file(path, [&](std::ostream& out) { write_profile(out, p, name); });
}

}  // namespace gpipe
