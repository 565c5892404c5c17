// expect: are one array of numbers: give a std::vector, std::array, std::span or a built-in array
// errors: 1
#include <list>
#include <vector>

#include <gpipe/train/data/dataset.hpp>

#ifdef GPIPE_FAIL
const std::list<float> pixels{1, 2};
#else
const std::vector<float> pixels{1, 2};
#endif
const auto data = gpipe::dataset{}.with("inputs", 1, pixels);
