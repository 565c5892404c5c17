// The GPU tests on pretended GPUs, which run on the processor, for machines without a GPU. (The folder `pretended`
// comes before the library in the include path.)

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

#include <gpipe/train/basic_trainer-inl.hpp>  // of the pretended device; the library has those of the host

#include "transport/nccl/ends.cu"
