// How long does a compiler take over a plan, over a user's program, and over each header alone?
//
//     compile [headers] [examples] [networks] [plan] [--svg FILE.svg] [program.cpp ...]
//
// The parts and programs that are named, or all four parts; --svg draws the plans' curve. A compiler that is not there
// is left out. A program that a compiler refuses ends the bench with an error.

#include "child.hpp"
#include "curve.hpp"

#include <gpipe/record/file/write_file.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
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

namespace {

namespace fs = std::filesystem;
using bench::planned, bench::spent;

const fs::path root = BENCH_ROOT;
constexpr int repeats = 3;
constexpr double long_run = 0.5;  // seconds
constexpr const char* compilers[] = {"g++", "clang++"};

bool is_there(const std::string& compiler) { return bench::run({compiler, "--version"}).wall >= 0; }

spent compile(const std::string& compiler, const fs::path& program, const fs::path& scratch,
              std::vector<std::string> flags) {
  flags.insert(flags.begin(), compiler);
  flags.insert(flags.end(), {"-std=c++20", "-w", "-c", "-I" + (root / "include").string()});
  std::istringstream includes(BENCH_INCLUDES);
  for (std::string folder; std::getline(includes, folder, ':');)
    if (!folder.empty()) flags.push_back("-I" + folder);
  flags.insert(flags.end(), {program.string(), "-o", (scratch / "program.o").string()});
  const spent used = bench::run(flags);
  if (used.wall < 0)
    gpipe::detail::throw_error({compiler, " does not compile ", program.string()}, {"correct the error shown above"});
  return used;
}

/// The median of three runs, or one run where that is long.
spent median_of(const std::string& compiler, const fs::path& program, const fs::path& scratch,
                const std::vector<std::string>& flags) {
  std::vector<double> wall, processor, megabytes;
  for (int i = 0; i < repeats; ++i) {
    const spent once = compile(compiler, program, scratch, flags);
    wall.push_back(once.wall);
    processor.push_back(once.processor);
    megabytes.push_back(once.megabytes);
    if (once.wall > long_run) break;
  }
  return {bench::median(wall), bench::median(processor), bench::median(megabytes)};
}

// Programs and headers -----------------------------------------------------------------------------------------------

std::vector<std::string> as_for_users() {
  return {
    "-O3", "-march=native", "-DNDEBUG",
#if GPIPE_WITH_LIBXSMM
        "-DGPIPE_WITH_LIBXSMM=1",
#endif
        "-DGPIPE_EXAMPLES_DATA=\"" + (root / "examples" / "data").string() + "\""
  };
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

/// The headers of libraries that are not installed.
const std::set<std::string> lacks_library {
#if !__has_include(<mpi.h>)
  "mpi",
#endif
#if !__has_include(<hwloc.h>)
      "hwloc",
#endif
#if !__has_include(<png.h>)
      "png",
#endif
#if !__has_include(<jpeglib.h>)
      "jpeg",
#endif
#if !__has_include(<sentencepiece_trainer.h>)
      "sentencepiece",
#endif
};

struct item {
  std::string name, text, result{};  // where it has one
};

std::vector<item> headers() {
  std::vector<item> all{{"an empty file", ""}};
  std::string standard;
  for (const char* header :
       {"functional", "map", "memory", "string", "vector", "thread", "mutex", "condition_variable"})
    standard += "#include <" + std::string(header) + ">\n";
  all.push_back({"functional, map, memory, string, vector, threads", standard});
  for (const char* library : {"thrust", "boost/hana"}) {
    std::string together;
    for (const auto& line : includes_from(root / "include", library)) together += line + "\n";
    if (!together.empty()) all.push_back({"all that we include of " + std::string(library), together});
  }
#if GPIPE_WITH_LIBXSMM
  all.push_back({"<libxsmm.h>", "#include <libxsmm.h>\n"});
#endif
  std::map<std::string, std::string> own;  // with its result
  for (const auto& folder : {root / "include", root / "include" / "gpipe"})
    for (const auto& file : fs::directory_iterator(folder))
      if (file.path().extension() == ".hpp" && !lacks_library.count(file.path().stem().string()))
        own[fs::relative(file.path(), root / "include").string()] = "header." + file.path().stem().string();
  for (const char* header :
       {"gpipe/core/descriptions/optimizer.hpp", "gpipe/model/model.hpp", "gpipe/plan/plan.hpp",
        "gpipe/device/host/host.hpp", "gpipe/transport/in_process/worker_signals.hpp", "gpipe/plan/make_plan.hpp",
        "gpipe/runtime/executor.hpp", "gpipe/tools/report/report.hpp", "gpipe/train/trainer.hpp"})
    own[header];
  for (const auto& [header, result] : own) all.push_back({header, "#include <" + header + ">\n", result});
  return all;
}

struct figure {
  std::string name;
  double value;
  const char* unit;
};
using figures = std::vector<figure>;

void heading() {
  std::printf("seconds at -O3 -march=native; in brackets the processor's\n%-52s", "");
  for (const char* compiler : compilers) std::printf("  %15s", compiler);
  std::printf("\n");
}

/// A row of the table, and its seconds as compile.<result>.<compiler>, where that has a name.
void row(const std::string& name, const std::string& result, const fs::path& program, const fs::path& scratch,
         figures& found) {
  std::printf("%-52s", name.c_str());
  for (const char* compiler : compilers) {
    if (!is_there(compiler)) {
      std::printf("  %15s", "-");
      continue;
    }
    const spent time = median_of(compiler, program, scratch, as_for_users());
    std::printf("  %6.2f (%6.2f)", time.wall, time.processor);
    std::fflush(stdout);
    if (!result.empty()) found.push_back({"compile." + result + "." + compiler, time.wall, "s"});
  }
  std::printf("\n");
}

void measure_headers(const fs::path& scratch, figures& found) {
  for (const item& header : headers()) {
    const auto program = scratch / "header.cpp";
    std::ofstream(program) << header.text;
    row(header.name, header.result, program, scratch, found);
  }
}

void measure_examples(const fs::path& scratch, figures& found) {
  for (const std::string example : {"readme", "digits"})
    row("examples/" + example + ".cpp", example == "readme" ? "readme.o3" : example,
        root / "examples" / (example + ".cpp"), scratch, found);
}

/// The README's program as users build it at -O2: header-only, with the compiled library, and with a precompiled header
/// besides. The library and the precompiled header are made before, once; their seconds have lines of their own.
void measure_modes(const fs::path& scratch, figures& found) {
  std::printf("examples/readme.cpp at -O2: processor's seconds (MB)\n");
  const fs::path program = root / "examples" / "readme.cpp";
  for (const std::string compiler : compilers) {
    if (!is_there(compiler)) continue;
    const auto take = [&](const char* what, const std::string& result, const fs::path& source,
                          const std::vector<std::string>& flags) {
      const spent time = median_of(compiler, source, scratch, flags);
      std::printf("%-10s%-44s%6.2f (%4.0f)\n", compiler.c_str(), what, time.processor, time.megabytes);
      found.push_back({"compile." + result + "." + compiler, time.processor, "s"});
      found.push_back({"compile." + result + "." + compiler + ".memory", time.megabytes, "MB"});
    };
    const fs::path folder = scratch / ("pch." + compiler), behind = folder / "behind.hpp";
    fs::create_directories(folder);
    std::ofstream(behind) << "#include <gpipe.hpp>\n";
    const std::string extension = compiler == "g++" ? ".gch" : ".pch";
    const std::vector<std::string> library{"-O2", "-DGPIPE_COMPILED=1"};
    take("header-only", "readme", program, {"-O2"});
    take("the compiled library, once", "library", root / "include" / "gpipe" / "compiled.cpp", library);
    take("with the compiled library", "readme.compiled", program, library);
    std::vector<std::string> header = library, use = library;
    header.insert(header.end(), {"-x", "c++-header"});
    compile(compiler, behind, folder, header);
    fs::rename(folder / "program.o", behind.string() + extension);
    if (compiler == "g++") use.insert(use.end(), {"-include", behind.string()});
    else use.insert(use.end(), {"-include-pch", behind.string() + extension});
    take("and a precompiled header", "readme.pch", program, use);
  }
}

/// The paper's AmoebaNet-D (18, 256), planned on 8 stages and trained, at -O2 with the compiled library.
constexpr const char* amoebanet_program = R"(#include <cstdint>
#include <vector>
#include <gpipe.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
using namespace gpipe;
using planned = plan<amoebanet_d<18, 256>, stages<8>, micro_batches<32>, micro_batch_size<4>, optimizer<sgd>>;
int main() {
  trainer training{planned{}, sgd{.learning_rate = 0.1}};
  const std::vector<float> inputs(128 * 3 * 224 * 224);
  const std::vector<std::int32_t> labels(128);
  training.step(batch(128).with("inputs", inputs).with("labels", labels));
}
)";

/// That network, and two of the examples with several networks each, which are compiled as the project builds them.
void measure_networks(const fs::path& scratch, figures& found) {
  std::printf("networks, with the compiled library: processor's seconds (MB)\n");
  const fs::path amoebanet = scratch / "amoebanet.cpp";
  std::ofstream(amoebanet) << amoebanet_program;
  std::vector<std::string> plain{"-O2", "-DGPIPE_COMPILED=1"}, built = as_for_users();
#if GPIPE_WITH_LIBXSMM
  plain.push_back("-DGPIPE_WITH_LIBXSMM=1");
#endif
  built.push_back("-DGPIPE_COMPILED=1");
  for (const std::string compiler : compilers) {
    if (!is_there(compiler)) continue;
    const auto take = [&](const char* what, const std::string& name, const fs::path& program,
                          const std::vector<std::string>& flags) {
      const spent time = median_of(compiler, program, scratch, flags);
      std::printf("%-10s%-44s%6.2f (%4.0f)\n", compiler.c_str(), what, time.processor, time.megabytes);
      found.push_back({"compile." + name + "." + compiler, time.processor, "s"});
      found.push_back({"compile." + name + "." + compiler + ".memory", time.megabytes, "MB"});
    };
    take("AmoebaNet-D (18, 256) on 8 stages, -O2", "amoebanet", amoebanet, plain);
    take("examples/images.cpp: three networks", "images", root / "examples" / "images.cpp", built);
    take("examples/gpt.cpp: two, in two precisions", "gpt", root / "examples" / "gpt.cpp", built);
  }
}

// Plans --------------------------------------------------------------------------------------------------------------

constexpr int block_counts[] = {16, 103, 415, 1663}, stage_counts[] = {1, 8, 32, 128};
constexpr double goal = 5;  // seconds, for g++ and clang++, of 1663 blocks on 128 stages with 512 micro-batches

/// A translation unit that plans, sizes, schedules and checks a Transformer, and whether it fits 16 GB.
std::string plan_program(int blocks, int stages) {
  std::ostringstream text;
  text << "#include <gpipe/plan.hpp>\n"
          "using namespace gpipe;\n"
          "using planned = plan<transformer<"
       << blocks << ">, stages<" << stages << ">, micro_batches<" << 4 * stages
       << ">, micro_batch_size<1>, recompute<recompute_mode::always>>;\n"
          "static_assert(require_fits<planned, 1600_GiB>());\n"
          "constexpr bool fits = [] {\n"
          "  for (int s = 0; s < planned::S; ++s)\n"
          "    if (planned::memory(s).total() > 16_GB) return false;\n"
          "  return true;\n"
          "}();\n"
          "bool fits_16_gb() { return fits; }\n";
  return text.str();
}

spent time_of_plan(const std::string& compiler, int blocks, int stages, const fs::path& scratch) {
  const auto program = scratch / (compiler == "nvcc" ? "plan.cu" : "plan.cpp");
  std::ofstream(program) << plan_program(blocks, stages);
  return median_of(compiler, program, scratch, {"-O0"});
}

/// By which power of the blocks the seconds grow for one number of stages: a least-squares fit of the seconds beyond
/// the smallest over the blocks that it has more, where that is long enough to be no noise.
std::optional<double> growth(const std::vector<planned>& line) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const planned& p : line) {
    const double seconds = p.seconds - line.front().seconds;
    if (seconds < 0.2) continue;
    const double u = std::log(p.blocks - line.front().blocks), v = std::log(seconds);
    n += 1, x += u, y += v, xx += u * u, xy += u * v;
  }
  if (n < 2) return std::nullopt;
  return (n * xy - x * y) / (n * xx - x * x);
}

void measure_plans(const fs::path& scratch, const std::string& svg, figures& found) {
  std::vector<planned> all;
  std::printf("plans of a Transformer at -O0, default limits: processor's seconds (MB)\n%-10s%7s", "", "stages");
  for (const int blocks : block_counts) std::printf("  %6d blocks", blocks);
  std::printf("   growth\n");
  for (const std::string compiler : {"g++", "clang++", "nvcc"}) {
    if (!is_there(compiler)) {
      std::printf("%-10s is not there\n", compiler.c_str());
      continue;
    }
    const spent empty = time_of_plan(compiler, 1, 1, scratch);
    std::printf("%-10s%7d  %5.2f (%4.0f) for one block\n", compiler.c_str(), 1, empty.processor, empty.megabytes);
    found.push_back({"compile.1x1." + compiler, empty.processor, "s"});
    for (const int stages : stage_counts) {
      std::printf("%-10s%7d", compiler.c_str(), stages);
      std::vector<planned> line;
      for (const int blocks : block_counts) {
        if (stages > 6 * blocks) {  // a block has six layers
          std::printf("  %13s", "");
          continue;
        }
        const spent time = time_of_plan(compiler, blocks, stages, scratch);
        std::printf("  %6.2f (%4.0f)", time.processor, time.megabytes);
        std::fflush(stdout);
        line.push_back({blocks, stages, compiler, time.processor, time.megabytes});
      }
      if (const auto power = growth(line)) std::printf("   L^%.2f", *power);
      std::printf("\n");
      all.insert(all.end(), line.begin(), line.end());
    }
  }
  for (const planned& p : all) {
    found.push_back({p.name(), p.seconds, "s"});
    found.push_back({p.name() + ".memory", p.megabytes, "MB"});
  }
  if (!svg.empty() && !all.empty())
    gpipe::write_file(svg, [&](std::ostream& out) { bench::draw_curves(out, all, goal); });
}

/// A folder that lasts as long as this object.
struct scratch_folder {
  fs::path path = fs::temp_directory_path() / ("gpipe-compile-" + std::to_string(getpid()));
  scratch_folder() { fs::create_directories(path); }
  ~scratch_folder() { fs::remove_all(path); }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
};

}  // namespace

int main(int count, char** arguments) try {
  std::set<std::string> parts;
  std::string svg;
  std::vector<std::string> programs;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "headers" || word == "examples" || word == "networks" || word == "plan") parts.insert(word);
    else if (word == "--svg" && i + 1 < count) svg = arguments[++i];
    else if (fs::exists(word)) programs.push_back(word);
    else {
      std::fprintf(stderr,
                   "compile [headers] [examples] [networks] [plan] [--svg FILE.svg] [program.cpp ...], not \"%s\"\n",
                   word.c_str());
      return 2;
    }
  }
  if (!svg.empty()) gpipe::require_writable(svg);
  const bool every_part = parts.empty() && programs.empty();
  const auto asked = [&](const char* part) { return every_part || parts.count(part) > 0; };

  bench::print_environment();
  const scratch_folder scratch;
  const auto measure = [](const auto& part) {
    figures found;
    part(found);
    for (const figure& f : found) bench::result(f.name, f.value, f.unit);
    std::printf("\n");
  };
  if (asked("headers") || asked("examples") || !programs.empty()) heading();
  if (asked("headers")) measure([&](figures& found) { measure_headers(scratch.path, found); });
  if (asked("examples")) measure([&](figures& found) { measure_examples(scratch.path, found); });
  if (asked("examples")) measure([&](figures& found) { measure_modes(scratch.path, found); });
  if (asked("networks")) measure([&](figures& found) { measure_networks(scratch.path, found); });
  for (const std::string& program : programs)
    measure([&](figures& found) { row(program, "", program, scratch.path, found); });
  if (asked("plan")) measure([&](figures& found) { measure_plans(scratch.path, svg, found); });
} catch (const std::exception& failure) {
  std::fprintf(stderr, "compile: %s\n", failure.what());
  return 1;
}
