#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace bench {

/// Runs another library's program, `bench/<script>`, in the virtual environment that bench/run prepares, and reads its
/// `result NAME VALUE UNIT` lines. Empty without that environment.
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

/// Another library's program that alternates with ours: it lives as long as this object, sleeps between requests, and
/// returns the duration of each (`answer` of bench/torch/networks.py).
class rival {
 public:
  rival(const std::string& script, const std::string& argument) {
    const char* python = std::getenv("GPIPE_BENCH_PYTHON");
    int orders[2], answers[2];
    if (python == nullptr || pipe(orders) != 0 || pipe(answers) != 0) return;
    std::signal(SIGPIPE, SIG_IGN);
    process_ = fork();
    if (process_ == 0) {
      dup2(orders[0], 0), dup2(answers[1], 1);
      for (const int end : {orders[0], orders[1], answers[0], answers[1]}) close(end);
      execl(python, python, (BENCH_ROOT "/bench/" + script).c_str(), argument.c_str(), static_cast<char*>(nullptr));
      _exit(1);
    }
    close(orders[0]), close(answers[1]);
    orders_ = fdopen(orders[1], "w"), answers_ = fdopen(answers[0], "r");
  }
  ~rival() {
    if (orders_ == nullptr) return;
    std::fclose(orders_), std::fclose(answers_);
    waitpid(process_, nullptr, 0);
  }
  rival(const rival&) = delete;
  rival& operator=(const rival&) = delete;

  /// The duration of `steps` steps in that way, in seconds; infinite without an answer.
  double seconds(const std::string& way, int steps) {
    double value = 0;
    if (orders_ == nullptr || std::fprintf(orders_, "%s %d\n", way.c_str(), steps) < 0 || std::fflush(orders_) != 0 ||
        std::fscanf(answers_, "%lf", &value) != 1)
      return std::numeric_limits<double>::infinity();
    return value;
  }

 private:
  std::FILE *orders_ = nullptr, *answers_ = nullptr;
  pid_t process_ = -1;
};

}  // namespace bench
