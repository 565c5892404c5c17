// The tests of GPUs on GPUs that are this processor, so that what is asked of them is tested where there is none.
// (`pretended` stands before the library on the path of headers: see there.)

#if __has_include(<nccl.h>)
#include "pretended/nccl.hpp"
#define GPIPE_WITH_NCCL 1
#endif

#include "pretended/gpu.hpp"

#include "pretended/block.hpp"

#define GPIPE_PRETENDED_GPU 1
#include "context.cu"

#include "layers.cu"

#include "training.cu"
