#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace bench {

/// Runs a peer's program, `bench/<question>/<script>`, in the virtual environment that bench/run prepares, and reads
/// its `result NAME VALUE UNIT` lines. Empty where there is no such environment.
inline std::map<std::string, double> peer(const std::string& script, const std::string& arguments = "") {
  std::map<std::string, double> found;
  const char* python = std::getenv("GPIPE_BENCH_PYTHON");
  if (python == nullptr) return found;
  std::FILE* out = popen((std::string(python) + " " BENCH_ROOT "/bench/" + script + " " + arguments).c_str(), "r");
  if (out == nullptr) return found;
  char line[512], name[256];
  double value = 0;
  while (std::fgets(line, sizeof line, out) != nullptr)
    if (std::sscanf(line, "result %255s %lf", name, &value) == 2) found[name] = value;
  pclose(out);
  return found;
}

}  // namespace bench
