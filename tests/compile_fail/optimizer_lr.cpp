// expect: gpipe: .*.lr is the name of PyTorch. here it is .learning_rate
// errors: 1
#include <gpipe/core/descriptions/optimizer.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
const adamw chosen{.lr = 1e-3};
#else
const adamw chosen{.learning_rate = 1e-3};
#endif
