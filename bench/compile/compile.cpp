// How long does a compiler take over a user's program, and over each header alone?
//
//     compile [program.cpp ...]      these programs besides ours

#include "../measure.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#ifndef BENCH_ROOT
#define BENCH_ROOT "."
#endif
#ifndef BENCH_INCLUDES
#define BENCH_INCLUDES ""
#endif

extern char** environ;

namespace {

namespace fs = std::filesystem;

const fs::path root = BENCH_ROOT;
constexpr int repeats = 3;
constexpr const char* compilers[] = {"g++", "clang++"};

/// Seconds of a command, run by itself, and what it had of a processor; negative where it failed.
struct spent {
  double wall = -1, processor = -1;
};

spent run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!std::getenv("BENCH_SHOW")) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  int status = 1;
  rusage used{};
  const double begin = bench::now();
  const bool started = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
  if (started) wait4(child, &status, 0, &used);
  const double wall = bench::now() - begin;
  posix_spawn_file_actions_destroy(&actions);
  if (!started || status != 0) return {};
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {wall, seconds(used.ru_utime) + seconds(used.ru_stime)};
}

spent compile(const std::string& compiler, const fs::path& program, const fs::path& scratch) {
  std::vector<std::string> words{compiler, "-std=c++20", "-O3", "-march=native", "-DNDEBUG", "-w", "-c"};
#if GPIPE_WITH_LIBXSMM
  words.push_back("-DGPIPE_WITH_LIBXSMM=1");
#endif
  words.push_back("-DGPIPE_EXAMPLES_DATA=\"" + (root / "examples" / "data").string() + "\"");
  words.push_back("-I" + (root / "include").string());
  std::istringstream includes(BENCH_INCLUDES);
  for (std::string folder; std::getline(includes, folder, ':');)
    if (!folder.empty()) words.push_back("-I" + folder);
  words.insert(words.end(), {program.string(), "-o", (scratch / "program.o").string()});
  return run(words);
}

spent median_of(const std::string& compiler, const fs::path& program, const fs::path& scratch) {
  std::vector<double> wall, processor;
  for (int i = 0; i < repeats; ++i) {
    const spent once = compile(compiler, program, scratch);
    if (once.wall < 0) return {};
    wall.push_back(once.wall);
    processor.push_back(once.processor);
  }
  return {bench::median(wall), bench::median(processor)};
}

/// Where the headers under `folder` include from `library`: the lines of all, each once.
std::set<std::string> includes_from(const fs::path& folder, std::string_view library) {
  std::set<std::string> found;
  for (const auto& file : fs::recursive_directory_iterator(folder)) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("#include <" + std::string(library))) found.insert(line);
  }
  return found;
}

struct item {
  std::string name, text;
};

std::vector<item> headers() {
  std::vector<item> all{{"an empty file", ""}};
  std::string standard;
  for (const char* header : {"functional", "map", "memory", "string", "vector", "thread", "mutex", "condition_variable"})
    standard += "#include <" + std::string(header) + ">\n";
  all.push_back({"functional, map, memory, string, vector, threads", standard});
  for (const char* library : {"thrust", "boost/hana"}) {
    std::string together;
    for (const auto& line : includes_from(root / "include", library)) {
      all.push_back({line.substr(9), line + "\n"});
      together += line + "\n";
    }
    if (!together.empty()) all.push_back({"all of these from " + std::string(library), together});
  }
#if GPIPE_WITH_LIBXSMM
  all.push_back({"<libxsmm.h>", "#include <libxsmm.h>\n"});
#endif
  std::set<std::string> own;
  for (const auto& folder : {root / "include", root / "include" / "gpipe"})
    for (const auto& file : fs::directory_iterator(folder))
      if (file.is_regular_file()) own.insert(fs::relative(file.path(), root / "include").string());
  for (const char* header : {"gpipe/core/optimizer.hpp", "gpipe/model/model.hpp", "gpipe/plan/plan.hpp",
                             "gpipe/device/host/host.hpp", "gpipe/transport/gate.hpp", "gpipe/plan/run_plan.hpp",
                             "gpipe/runtime/executor.hpp", "gpipe/record/report.hpp", "gpipe/train/trainer.hpp"})
    own.insert(header);
  for (const auto& header : own) {
    std::string line = "#include <";
    line.append(header).append(">\n");
    all.push_back({header, line});
  }
  return all;
}

}  // namespace

int main(int count, char** arguments) {
  bench::print_environment();
  fs::path scratch = fs::temp_directory_path() / ("gpipe-compile-" + std::to_string(getpid()));
  fs::create_directories(scratch);

  std::printf("seconds, median of %d, -O3 -march=native -c; in brackets the processor's time\n", repeats);
  std::printf("%-52s", "");
  for (const char* compiler : compilers) std::printf("  %15s", compiler);
  std::printf("\n");

  std::vector<item> results;
  const auto row = [&](const std::string& name, const fs::path& program) {
    std::printf("%-52s", name.c_str());
    for (const char* compiler : compilers) {
      const spent time = median_of(compiler, program, scratch);
      if (time.wall < 0) std::printf("  %15s", "-");
      else std::printf("  %6.2f (%6.2f)", time.wall, time.processor);
      std::fflush(stdout);
      if (time.wall >= 0 && program.parent_path() == root / "examples")
        results.push_back({"compile." + program.stem().string() + "." + compiler, std::to_string(time.wall)});
    }
    std::printf("\n");
  };

  for (const item& header : headers()) {
    const auto program = scratch / "header.cpp";
    std::ofstream(program) << header.text;
    row(header.name, program);
  }
  for (const char* example : {"readme", "digits"}) {
    const auto program = root / "examples" / (std::string(example) + ".cpp");
    if (fs::exists(program)) row("examples/" + std::string(example) + ".cpp", program);
    else std::printf("examples/%s.cpp is not there\n", example);
  }
  for (int i = 1; i < count; ++i) row(arguments[i], arguments[i]);
  fs::remove_all(scratch);

  std::printf("\n");
  for (const item& found : results) bench::result(found.name, std::atof(found.text.c_str()), "s");
}
