#pragma once

// For layers whose kernels call Thrust's algorithms: `thrust_policy(context)`. No other header of the host includes
// Thrust, which a compiler reads as long as a third of gpipe.
#include <gpipe/device/host/thrust_policy.hpp>
