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

/// With -D GPIPE_NVTX=1 a profiler, such as Nsight Systems, shows the layer and micro-batch of the operations that a
/// context enqueues: a range from one `operation_tag` to the next, in the host's time. The profiler also shows the
/// GPU's times. Does nothing by default.
class nvtx_range {
 public:
#if GPIPE_NVTX
  ~nvtx_range() { end(); }
  void begin(const operation_tag& operation) {
    end();
    char name[160];
    std::snprintf(name, sizeof name, "stage %d micro-batch %d layer %d %.*s", operation.stage, operation.micro_batch,
                  operation.layer_index, static_cast<int>(operation.layer.size()), operation.layer.data());
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
  void begin(const operation_tag&) {}
  void end() {}
#endif
};

}  // namespace gpipe::cuda
