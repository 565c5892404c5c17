#pragma once

#include "../measure.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

extern char** environ;

namespace bench {

/// What a command took, run by itself: seconds, seconds of a processor (its own children's too), and the most memory
/// that it, or one of its children, had resident. Negative where it failed.
struct spent {
  double wall = -1, processor = -1, megabytes = -1;
};

/// Its errors are shown, and the rest of its output is not.
inline spent run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int status = 1;
  rusage used{};
  const double begin = now();
  const bool started = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
  if (started) wait4(child, &status, 0, &used);
  const double wall = now() - begin;
  posix_spawn_file_actions_destroy(&actions);
  if (!started || status != 0) return {};
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {wall, seconds(used.ru_utime) + seconds(used.ru_stime), 1.024e-3 * static_cast<double>(used.ru_maxrss)};
}

}  // namespace bench
