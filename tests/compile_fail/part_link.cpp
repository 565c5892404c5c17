// expect: the option .link_bytes_per_second of a training emulates links: #include <gpipe/testing.hpp>
// errors: 1
#include <gpipe/train.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/testing.hpp>
#endif

gpipe::training_options options() { return {.link_bytes_per_second = 1000}; }
