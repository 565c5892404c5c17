// The tests of GPUs on GPUs that are this processor, so that what is asked of them is tested where there is none.
// (`pretended` stands before the library on the path of headers: see there.)

#if __has_include(<nccl.h>)
#include "support/pretended/nccl.hpp"
#define GPIPE_WITH_NCCL 1
#endif

#include "support/pretended/gpu.hpp"

#include "support/pretended/block.hpp"

#define GPIPE_PRETENDED_GPU 1
#include "device/cuda/context.cu"

#include "device/cuda/layers.cu"

#include "device/cuda/training.cu"

#include "transport/nccl/ends.cu"
