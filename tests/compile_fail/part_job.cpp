// expect: the option .job of a training sets up processes: #include <gpipe/job.hpp>
// errors: 1
#include <gpipe/train.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/job.hpp>
#endif

gpipe::training_options options(gpipe::process_group& world) { return {.job = &world}; }
