// expect: gpipe: .*here they are .beta1 and .beta2
// errors: 1
#include <gpipe/core/descriptions/optimizer.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
const adamw chosen{.betas = {0.9, 0.95}};
#else
const adamw chosen{.beta1 = 0.9, .beta2 = 0.95};
#endif
