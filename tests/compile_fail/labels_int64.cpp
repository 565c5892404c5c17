// expect: numbers are float, double, std::int32_t, std::uint8_t or gpipe::bf16: convert an array of another type
// expect: rows_have_an_element_type<long.*, false>
// errors: 1
#include <cstdint>
#include <vector>

#include <gpipe/train/data/dataset.hpp>

#ifdef GPIPE_FAIL
const std::vector<std::int64_t> labels{1, 2};
#else
const std::vector<std::int32_t> labels{1, 2};
#endif
const auto data = gpipe::dataset{}.with("labels", 1, labels);
