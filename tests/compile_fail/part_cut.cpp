// expect: the option .cut of a training plans at run time: #include <gpipe/make_plan.hpp>
// errors: 1
#include <gpipe/train.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/make_plan.hpp>
#endif

gpipe::training_options options() { return {.cut = {1, 2}}; }
