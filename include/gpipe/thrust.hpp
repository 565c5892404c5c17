#pragma once

// For layers whose kernels call Thrust's algorithms: `thrust_policy(context)`, on every device. No other header of the
// host includes Thrust, which takes a compiler as long as half of gpipe.
#include <gpipe/device/host/thrust_policy.hpp>
#if defined(__CUDACC__)
#include <gpipe/device/cuda/thrust_policy.hpp>
#endif
