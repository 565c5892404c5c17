#pragma once

#include "result.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <unistd.h>

namespace bench {

/// Calls mpirun for processes of this program. Prints what they print, and returns their results.
inline std::map<std::string, double> run_processes(int count, const std::string& words) {
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);  // the same from Open MPI 5 on
  if (geteuid() == 0) setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0), setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  const std::string command = "env -u GPIPE_BENCH_HISTORY mpirun -np " + std::to_string(count) + " --bind-to none " +
                              std::filesystem::canonical("/proc/self/exe").string() + " " + words;
  std::map<std::string, double> found;
  std::FILE* out = popen(command.c_str(), "r");
  if (out == nullptr) return found;
  char line[512], name[256], unit[64];
  double value = 0;
  while (std::fgets(line, sizeof line, out) != nullptr)
    if (std::sscanf(line, "result %255s %lf %63s", name, &value, unit) == 3)
      result(name, value, unit), found[name] = value;
    else std::fputs(line, stdout);
  pclose(out);
  return found;
}

}  // namespace bench
