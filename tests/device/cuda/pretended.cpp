// The tests of GPUs on GPUs that are this processor, so that what is asked of them is tested where there is none.
// (`pretended` stands before the library on the path of headers: see there.)

#include "pretended/gpu.hpp"

#include "pretended/block.hpp"

#define GPIPE_PRETENDED_GPU 1
#include "context.cu"

#include "layers.cu"

#include "training.cu"
