// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/sources.hpp"

// Reads every header of the library. A folder includes only folders before it, there is no include cycle, and each
// dependency is included by the folders that are listed for it and by no others.

namespace {

using sources::joined;

// change: a folder
/// The folders in include order. A header may include headers of its own folder and of those before it in this list.
constexpr std::array folders{"core",
                             "core/numbers",
                             "core/tensors",
                             "core/text",
                             "core/descriptions",
                             "layer/contract",
                             "layer/activation",
                             "layer/linear",
                             "layer/convolution",
                             "layer/pooling",
                             "layer/normalization",
                             "layer/regularization",
                             "layer/loss",
                             "layer/attention",
                             "layer/shape",
                             "model/structure",
                             "model",
                             "model/vision",
                             "plan/partition",
                             "plan/stages",
                             "plan/cost",
                             "plan/schedule/contract",
                             "plan/schedule",
                             "plan/timetable",
                             "plan/options",
                             "plan/memory",
                             "plan/recompute",
                             "plan/program",
                             "plan/cut",
                             "plan",
                             "device/contract",
                             "device/host/gemm",
                             "device/host/attention",
                             "device/host/convolution",
                             "device/host",
                             "transport/contract",
                             "transport/in_process",
                             "record/file",
                             "record",
                             "record/checkpoint",
                             "runtime/step",
                             "runtime/binding",
                             "runtime/hooks",
                             "runtime/stage",
                             "runtime/link",
                             "runtime/processes",
                             "runtime/replicas",
                             "runtime/worker",
                             "runtime",
                             "train/data",
                             "train/checkpoint/names",
                             "train/checkpoint",
                             "train",
                             "cuda/stream",
                             "cuda/kernels",
                             "cuda",
                             "cuda/nccl",
                             "mpi/hosts",
                             "mpi",
                             "mpi/hwloc",
                             "tools/search",
                             "tools/best",
                             "tools/data",
                             "tools/images",
                             "tools/text",
                             "tools/scores",
                             "tools/names",
                             "tools/generation",
                             "tools/drawing",
                             "tools/devices",
                             "tools/report",
                             "tools/log",
                             "tools/testing"};

/// A folder with more headers than this has more than one noun.
constexpr std::ptrdiff_t max_headers_in_a_folder = 16;

/// Of each header, by its name in an include ("gpipe/core/error.hpp"): what it includes, in its order.
using includes = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> included_by(const std::string& text) {
  std::vector<std::string> found;
  for (const std::string& line : sources::lines_of(text)) {
    const auto at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line.compare(at, 1, "#") != 0) continue;
    const auto word = line.find_first_not_of(" \t", at + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const auto begin = line.find_first_of("<\"", word), end = line.find_first_of(">\"", begin + 1);
    if (begin != std::string::npos && end != std::string::npos)
      found.push_back(line.substr(begin + 1, end - begin - 1));
  }
  return found;
}

includes read_headers() {
  includes all;
  for (const auto& file : sources::files_of("include", {".hpp"}))
    all[sources::name_of(file, "include")] = included_by(sources::read(file));
  return all;
}

/// The position of a header's folder in `folders`: "gpipe/core/error.hpp" is 0. -1 for a header outside every folder,
/// such as "gpipe/plan.hpp", which collects what stands in folders. -2 for a header in a folder that the list lacks.
int folder_of(const std::string& header) {
  const auto end = header.rfind('/');
  if (end == std::string::npos || end < 6) return -1;
  const std::string folder = header.substr(6, end - 6);
  const auto at = std::find(folders.begin(), folders.end(), folder);
  return at == folders.end() ? -2 : static_cast<int>(at - folders.begin());
}

/// Includes against the order of folders, and those by a relative path, which hide the folder.
std::vector<std::string> out_of_order(const includes& all) {
  std::vector<std::string> wrong;
  for (const auto& [header, list] : all)
    for (const auto& other : list) {
      if (other == "gpipe/version.hpp") continue;  // three numbers, which include nothing
      const bool later = folder_of(other) < 0 || folder_of(other) > folder_of(header);
      if (other.front() == '.' || (folder_of(header) >= 0 && other.rfind("gpipe", 0) == 0 && later))
        wrong.push_back(header + " includes " + other);
    }
  return wrong;
}

std::vector<std::string> cycles(const includes& all) {
  std::vector<std::string> found;
  std::set<std::string> done, open;
  const auto walk = [&](const auto& self, const std::string& header) -> void {
    if (done.count(header) || !all.count(header)) return;
    if (!open.insert(header).second) return found.push_back(header);
    for (const auto& other : all.at(header)) self(self, other);
    open.erase(header);
    done.insert(header);
  };
  for (const auto& [header, list] : all) walk(walk, header);
  return found;
}

std::vector<std::string> missing(const includes& all) {
  std::vector<std::string> found;
  for (const auto& [header, list] : all)
    for (const auto& other : list)
      if (other.rfind("gpipe", 0) == 0 && !all.count(other)) found.push_back(header + " includes " + other);
  return found;
}

/// Headers that include something that begins with `what`, other than those whose names begin with one of `allowed`.
std::vector<std::string> outside_of(const includes& all, std::string_view what,
                                    const std::vector<std::string>& allowed) {
  std::vector<std::string> found;
  for (const auto& [header, list] : all)
    for (const auto& other : list)
      if (other.rfind(what, 0) == 0 &&
          std::none_of(allowed.begin(), allowed.end(),
                       [&, h = header](const auto& folder) { return h.rfind(folder, 0) == 0; }))
        found.push_back(header + " includes " + other);
  return found;
}

/// Bodies (a-inl.hpp) include their interface (a.hpp), which ends with them if the program is header-only. That one
/// include is left out.
const includes& headers() {
  static const includes all = [] {
    includes found = read_headers();
    for (auto& [header, list] : found)
      std::erase(list, header.substr(0, header.size() - std::string_view(".hpp").size()) + "-inl.hpp");
    return found;
  }();
  return all;
}
bool is_body(const std::string& header) { return header.ends_with("-inl.hpp"); }

}  // namespace

TEST_CASE("every header is found, and what it includes of ours is there") {
  CHECK(headers().size() > 60);
  for (int i = 0; i < static_cast<int>(folders.size()); ++i) {
    CAPTURE(std::string(folders[static_cast<std::size_t>(i)]));
    const auto count = std::count_if(headers().begin(), headers().end(), [i](const auto& entry) {
      return folder_of(entry.first) == i && !is_body(entry.first);
    });
    CHECK(count >= 1);
    CHECK(count <= max_headers_in_a_folder);
  }
  for (const auto& entry : headers()) {
    CAPTURE(entry.first);
    CHECK(folder_of(entry.first) != -2);
  }
  CHECK(joined(missing(headers())) == "");
}

TEST_CASE("a folder includes folders before it") { CHECK(joined(out_of_order(headers())) == ""); }

TEST_CASE("no include cycle") { CHECK(joined(cycles(headers())) == ""); }

// Component headers, such as <gpipe/mpi.hpp>, collect these rooms for programs that use them.
TEST_CASE("the pipeline includes no backend and no tool, and these do not include each other") {
  includes inner;
  for (const auto& header : headers())
    if (folder_of(header.first) >= 0) inner.insert(header);
  for (const std::string room : {"gpipe/cuda/", "gpipe/mpi/", "gpipe/tools/"}) {
    CAPTURE(room);
    CHECK(joined(outside_of(inner, room, {room})) == "");
  }
  inner["gpipe/train/fit.hpp"].push_back("gpipe/tools/log/log_file.hpp");
  CHECK(outside_of(inner, "gpipe/tools/", {"gpipe/tools/"}).size() == 1);
}

// change: a folder; a library that it includes
TEST_CASE("dependencies enter through their allowed") {
  CHECK(joined(outside_of(headers(), "boost/", {"gpipe/model/hana.hpp", "gpipe/plan/stages/stage_types.hpp"})) == "");
  CHECK(joined(outside_of(headers(), "thrust/", {"gpipe/device/", "gpipe/cuda/"})) == "");
  CHECK(joined(outside_of(headers(), "libxsmm", {"gpipe/device/host/"})) == "");
  for (const char* library : {"cuda", "cublas"}) CHECK(joined(outside_of(headers(), library, {"gpipe/cuda/"})) == "");
  CHECK(joined(outside_of(headers(), "nccl", {"gpipe/cuda/nccl/"})) == "");
  CHECK(joined(outside_of(headers(), "hwloc", {"gpipe/mpi/hwloc/"})) == "");
  CHECK(joined(outside_of(headers(), "sentencepiece", {"gpipe/tools/text/"})) == "");
  CHECK(joined(outside_of(headers(), "doctest", {})) == "");
}

TEST_CASE("one folder opens files") {
  CHECK(joined(outside_of(headers(), "fcntl.h", {"gpipe/record/file/"})) == "");
  CHECK(joined(outside_of(headers(), "fstream", {})) == "");
}

TEST_CASE("what is constexpr knows neither threads nor files") {
  const std::vector<std::string> lower{"gpipe/core/clock.hpp", "gpipe/device/",  "gpipe/transport/",
                                       "gpipe/record/",        "gpipe/runtime/", "gpipe/train/",
                                       "gpipe/cuda/",          "gpipe/mpi/",     "gpipe/tools/"};
  for (const char* header : {"thread", "atomic", "mutex", "condition_variable", "future", "chrono", "iostream",
                             "fstream", "ostream", "sstream", "filesystem", "cstdio"}) {
    CAPTURE(header);
    CHECK(joined(outside_of(headers(), header, lower)) == "");
  }
  // The clock of a training's times stands below, and nothing that is constexpr includes it.
  CHECK(joined(outside_of(headers(), "gpipe/core/clock.hpp", {"gpipe/runtime/", "gpipe/train/"})) == "");
}

TEST_CASE("the reader sees what is wrong") {
  includes planted = headers();
  planted["gpipe/core/a.hpp"] = {"vector", "gpipe/layer/contract/operands.hpp"};
  CHECK(out_of_order(planted) ==
        std::vector<std::string>{"gpipe/core/a.hpp includes gpipe/layer/contract/operands.hpp"});
  planted["gpipe/core/a.hpp"] = {"gpipe/plan.hpp"};
  CHECK(out_of_order(planted).size() == 1);
  planted["gpipe/core/a.hpp"] = {"../plan/plan.hpp"};
  CHECK(out_of_order(planted).size() == 1);
  planted["gpipe/core/a.hpp"] = {};
  planted["gpipe/plan/cost/a.hpp"] = {"gpipe/plan/memory/layout.hpp"};
  CHECK(out_of_order(planted).size() == 1);
  planted["gpipe/plan/cost/a.hpp"] = {"gpipe/plan/nowhere/layout.hpp"};
  CHECK(out_of_order(planted).size() == 1);
  planted.erase("gpipe/plan/cost/a.hpp");
  planted["gpipe/core/a.hpp"] = {"gpipe/core/b.hpp"};
  planted["gpipe/core/b.hpp"] = {"gpipe/core/error.hpp", "gpipe/core/c.hpp"};
  planted["gpipe/core/c.hpp"] = {"gpipe/core/a.hpp"};
  CHECK(cycles(planted) == std::vector<std::string>{"gpipe/core/a.hpp"});
  planted["gpipe/core/c.hpp"] = {"gpipe/core/nowhere.hpp", "thrust/copy.h"};
  CHECK(joined(cycles(planted)) == "");
  CHECK(missing(planted).size() == 1);
  CHECK(outside_of(planted, "thrust/", {"gpipe/device/", "gpipe/cuda/"}).size() == 1);
}

TEST_CASE("no header leaves a macro, a pragma or a using-directive behind that is not ours to leave") {
  // Thrust's own switch, and MPI's to leave out its C++ bindings, must hold for whoever includes these later, too.
  const std::set<std::string> known{"THRUST_DEVICE_SYSTEM", "OMPI_SKIP_MPICXX", "MPICH_SKIP_MPICXX"};
  std::vector<std::string> left;
  for (const auto& [header, list] : headers()) {
    std::set<std::string> undefined;
    std::vector<std::string> defined;
    for (const std::string& line : sources::lines_of(sources::read(sources::root / "include" / header))) {
      std::istringstream words(line);
      std::string first, second;
      words >> first >> second;
      if (first == "#") words >> second, first = "#" + second, words >> second;
      if (first == "#define") defined.push_back(second.substr(0, second.find('(')));
      if (first == "#undef") undefined.insert(second);
      if (first == "#pragma" && second != "once") left.push_back(header + ": " + line);
      if (line.rfind("using namespace", 0) == 0) left.push_back(header + ": " + line);
    }
    for (const auto& name : defined)
      if (name.rfind("GPIPE_", 0) != 0 && !known.count(name)) left.push_back(header + ": " + name);
    for (const auto& name : undefined)
      if (std::find(defined.begin(), defined.end(), name) == defined.end())
        left.push_back(header + ": undefines " + name);
  }
  for (const std::string& one : left) FAIL_CHECK(one);
}
