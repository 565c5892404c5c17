#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

namespace bench {

/// Each line is printed when it is known, into a pipe or a file, too.
inline const bool prints_each_line = std::setvbuf(stdout, nullptr, _IOLBF, 0) == 0;

/// The machine, such as "AMD EPYC 9B45, 2 cores, 23 GiB".
inline std::string machine() {
  std::string processor = "unknown processor", line;
  for (std::ifstream in("/proc/cpuinfo"); std::getline(in, line);)
    if (line.starts_with("model name")) {
      processor = line.substr(line.find(':') + 2);
      break;
    }
  const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return processor + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores, " +
         std::to_string(std::lround(bytes / (1 << 30))) + " GiB";
}

/// A row of the history that `bench/run --record` names in the environment, and its heading in a new file:
///
///     commit,date,machine,figure,value,unit
///     1dd932bf,2026-11-25,"AMD EPYC 9B45, 2 cores, 23 GiB",pipeline.share,0.984,"ratio"
inline void record(const std::string& figure, const std::string& value, const std::string& unit) {
  const char *file = std::getenv("GPIPE_BENCH_HISTORY"), *commit = std::getenv("GPIPE_BENCH_COMMIT");
  if (file == nullptr) return;
  const std::time_t now = std::time(nullptr);
  char date[11];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::ofstream out(file, std::ios::app);
  if (out.tellp() == 0) out << "commit,date,machine,figure,value,unit\n";
  out << (commit != nullptr ? commit : "unknown") << ',' << date << ",\"" << machine() << "\"," << figure << ','
      << value << ",\"" << unit << "\"\n";
  if (out.flush()) return;
  std::fprintf(stderr, "%s cannot be written; its folder must exist and have space\n", file);
  std::exit(1);
}

/// A figure, for programs that read the output: `result NAME VALUE UNIT`.
inline void result(const std::string& name, double value, const std::string& unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  std::printf("result %s %s %s\n", name.c_str(), text, unit.c_str());
  record(name, text, unit);
}

}  // namespace bench
