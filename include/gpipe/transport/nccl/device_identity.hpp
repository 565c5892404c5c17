#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <gpipe/device/cuda/stream/gpu.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/nccl/check.hpp>

namespace gpipe::nccl {

/// Which of all GPUs one is.
struct identity {
  char bytes[16]{};

  GPIPE_ONCE static identity of(int gpu) {
    cudaDeviceProp found{};
    cuda::check(cudaGetDeviceProperties(&found, gpu), "cudaGetDeviceProperties");
    identity it;
    static_assert(sizeof it.bytes == sizeof found.uuid.bytes);
    std::memcpy(it.bytes, found.uuid.bytes, sizeof it.bytes);
    return it;
  }
  bool operator==(const identity& other) const { return std::memcmp(bytes, other.bytes, sizeof bytes) == 0; }
};

/// Refuses two ranks on one GPU, of which NCCL would only say that its usage is invalid.
GPIPE_ONCE inline void require_apart(int one, const identity& gpu_of_one, int other, const identity& gpu_of_other) {
  if (gpu_of_one == gpu_of_other)
    gpipe::detail::refuse({"ranks ", (std::min)(one, other), " and ", (std::max)(one, other),
                           " have the same GPU, between which NCCL carries nothing"},
                          {"start one process a GPU, or let one process have several stages: they share it"});
}

/// How ranks without a job get the name of a communicator that they are to make: by a file that all of them see, which
/// rank 0 writes. It must not be there before.
GPIPE_ONCE inline void tell(const ncclUniqueId& name, const std::string& file) {
  const std::string draft = file + ".draft";
  std::FILE* const into = std::fopen(draft.c_str(), "wb");
  const bool written = into != nullptr && std::fwrite(&name, sizeof name, 1, into) == 1;
  if (into == nullptr || std::fclose(into) != 0 || !written || std::rename(draft.c_str(), file.c_str()) != 0)
    gpipe::detail::refuse({"cannot be written"}, {"choose a file of a folder that all processes see"}, {.file = file});
}
/// Waits for the file until the deadline.
GPIPE_ONCE inline ncclUniqueId told(const std::string& file, std::chrono::nanoseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (ncclUniqueId name{};;) {
    if (std::FILE* const from = std::fopen(file.c_str(), "rb")) {
      const bool whole = std::fread(&name, sizeof name, 1, from) == 1;
      std::fclose(from);
      if (whole) return name;
    }
    if (std::chrono::steady_clock::now() > until)
      gpipe::detail::refuse({"rank 0 has not written it within ", gpipe::detail::told(deadline)},
                            {"see whether rank 0 runs, and sees the same folder"}, {.file = file});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace gpipe::nccl
