// expect: gpipe: .*.eps is the name of PyTorch. here it is .epsilon
// errors: 1
#include <gpipe/core/descriptions/optimizer.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
const adamw chosen{.eps = 1e-6};
#else
const adamw chosen{.epsilon = 1e-6};
#endif
