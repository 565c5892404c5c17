#pragma once

// Jobs of this test's own program over hosts that support/hosts makes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

/// The exit code of support/hosts where no hosts can be made.
inline constexpr int skipped = 77;

/// In a process of a job: what it does; else empty.
inline std::string task() {
  const char* const given = std::getenv("GPIPE_TEST_TASK");
  return given == nullptr ? "" : given;
}
inline std::string host_name() {
  char name[64] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// Runs a line of a shell at the hosts' login node, and returns what it prints.
inline std::string among_hosts(int count, const std::string& line, int& code) {
  const std::string command = "timeout -k 1 60 " GPIPE_TESTS_FOLDER "/support/hosts/hosts " + std::to_string(count) +
                              " bash -c '" + line + "' 2>&1";
  FILE* const out = popen(command.c_str(), "r");
  REQUIRE(out != nullptr);
  std::string text;
  for (int c = 0; (c = std::fgetc(out)) != EOF;) text += static_cast<char>(c);
  const int status = pclose(out);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return text;
}
/// A line that starts a process on each of these hosts, such as "a,b". It runs the case "a process of a job".
inline std::string start(const std::string& hosts, const std::string& what, const std::string& folder) {
  return "mpirun --host " + hosts + " -np " + std::to_string(1 + std::count(hosts.begin(), hosts.end(), ',')) +
         " -x GPIPE_TEST_TASK=\"" + what + "\" -x GPIPE_TEST_FOLDER=" + folder + ' ' +
         std::string(std::filesystem::canonical("/proc/self/exe")) + " \"--test-case=a process of a job\" -m";
}
/// Whether hosts can be made; says so if not.
inline bool has_hosts() {
  int code = 0;
  const std::string why = among_hosts(1, "true", code);
  if (code == skipped) MESSAGE(why);
  else REQUIRE_MESSAGE(code == 0, why);
  return code == 0;
}
