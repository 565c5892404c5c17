#pragma once

#include <gpipe/device/contract/device_concept.hpp>

#ifndef GPIPE_NVTX
#define GPIPE_NVTX 0
#endif

#if GPIPE_NVTX
#include <cstdio>

#include <nvtx3/nvToolsExt.h>
#endif

namespace gpipe::cuda {

/// With -D GPIPE_NVTX=1 a profiler, such as Nsight Systems, shows whose operations a context is asked for: a range from
/// one asker to the next, of the time of asking; the GPU's own times are beside it. Else nothing.
class range {
 public:
#if GPIPE_NVTX
  ~range() { end(); }
  void begin(const asker& who) {
    end();
    char name[160];
    std::snprintf(name, sizeof name, "stage %d micro-batch %d slot %d %.*s", who.stage, who.micro_batch, who.slot,
                  static_cast<int>(who.layer.size()), who.layer.data());
    id_ = nvtxRangeStartA(name);
    open_ = true;
  }
  void end() {
    if (open_) nvtxRangeEnd(id_);
    open_ = false;
  }

 private:
  nvtxRangeId_t id_ = 0;
  bool open_ = false;
#else
  void begin(const asker&) {}
  void end() {}
#endif
};

}  // namespace gpipe::cuda
