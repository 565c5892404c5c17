#pragma once

// The shortest time that counts allow on a machine: see README.md.

#include "support/emulated_gpu/counts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

namespace bench {

/// A GPU, per multiprocessor and cycle where nothing else is said. README.md has the source of each number.
struct gpu_model {
  const char *name, *architecture;
  int multiprocessors;
  double clock;                      ///< Hz
  double memory;                     ///< bytes per second
  double rate[emulated::pipes];      ///< lanes; of the tensor cores multiply-adds of bf16; of jumps a warp's lanes
  int max_threads, max_blocks;       ///< of a multiprocessor
  int registers;                     ///< of a multiprocessor
  int shared_bytes, shared_of_cuda;  ///< of a multiprocessor; and what CUDA takes of them for each block
};

inline constexpr int warp = 32, schedulers = 4;  // a scheduler issues an instruction per cycle

inline constexpr gpu_model models[] = {
    {"a100", "sm_80", 108, 1.41e9, 2.039e12, {64, 32, 64, 16, 1024, 32, 64}, 2048, 32, 65536, 164 << 10, 1024},
    {"h100", "sm_90", 132, 1.98e9, 3.35e12, {128, 64, 64, 16, 1893, 32, 64}, 2048, 32, 65536, 228 << 10, 1024}};

/// cuBLASLt's products are no kernels of ours: they count as this share of the tensor cores' rate.
inline constexpr double product_share = 0.6;

inline constexpr const char* resources[] = {"float", "double", "integer", "special", "tensor",
                                            "ls",    "jumps",  "issue",   "memory"};

/// Registers of each kernel of a file of PTX, by ptxas.
class register_table {
 public:
  int of(const emulated::launch_counts& c, const gpu_model& on) {
    auto& found = tables_[c.module_path + on.architecture];
    if (found.empty()) read(c.module_path, on, found);
    return found.at(c.kernel);
  }

 private:
  static void read(const std::string& path, const gpu_model& on, std::map<std::string, int>& into) {
    const std::string command =
        std::string(BENCH_PTXAS " -v -arch=") + on.architecture + " '" + path + "' -o /dev/null 2>&1";
    FILE* const out = popen(command.c_str(), "r");
    if (out == nullptr) throw std::runtime_error("ptxas does not run");
    std::string kernel;
    for (char line[4096]; std::fgets(line, sizeof line, out) != nullptr;) {
      const std::string text = line;
      if (const auto at = text.find("entry function '"); at != text.npos)
        kernel = text.substr(at + 16, text.find('\'', at + 16) - at - 16);
      if (const auto at = text.find("Used "); at != text.npos) into[kernel] = std::atoi(line + at + 5);
    }
    if (pclose(out) != 0) throw std::runtime_error("ptxas refuses " + path);
  }

  std::map<std::string, std::map<std::string, int>> tables_;
};

/// Blocks that a multiprocessor holds at a time. Registers are given in parts of 256 for each warp.
inline int occupancy(const emulated::launch_counts& c, const gpu_model& on, int registers) {
  const int warps = static_cast<int>((c.threads + warp - 1) / warp), of_warp = (registers * warp + 255) / 256 * 256;
  return std::min({on.max_blocks, on.max_threads / (warp * warps), on.registers / (of_warp * warps),
                   on.shared_bytes / (static_cast<int>(c.shared_bytes) + on.shared_of_cuda)});
}

struct bound {
  double seconds = 0, tensor_seconds = 0;  // all, and those of tensor cores alone, but of products none
  int resource = 0;
};

/// The largest of the times that the resources take. A multiprocessor with the most blocks sets those of its own.
inline bound bound_of(const emulated::launch_counts& c, const gpu_model& on) {
  bound found;
  const auto take = [&](int resource, double seconds) {
    if (seconds > found.seconds) found.seconds = seconds, found.resource = resource;
  };
  if (c.m != 0) {
    const double rate = on.rate[emulated::tensor] * on.clock * on.multiprocessors,
                 all = static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    // float is no TF32: it runs on the ordinary pipe.
    const double slower = c.element_bytes == 2 ? 1 : on.rate[emulated::tensor] / on.rate[emulated::single];
    take(emulated::tensor, all * slower / rate / product_share);
    return found;
  }
  const double most = std::ceil(static_cast<double>(c.blocks) / on.multiprocessors);
  const auto of_busiest = [&](double count) { return most * count / static_cast<double>(c.ran) / on.clock; };
  for (int p = 0; p < emulated::pipes; ++p) {
    const auto count = static_cast<double>(c.of_pipe[p] + (p == emulated::load_store ? c.extra_passes : 0));
    const double seconds = of_busiest(p == emulated::tensor ? count / on.rate[p] : warp * count / on.rate[p]);
    take(p, seconds);
    if (p == emulated::tensor) found.tensor_seconds = seconds;
  }
  take(emulated::pipes, of_busiest(static_cast<double>(c.issued) / schedulers));
  take(emulated::pipes + 1, c.moved_bytes / on.memory);
  return found;
}

}  // namespace bench
