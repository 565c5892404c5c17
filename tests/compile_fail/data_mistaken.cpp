// expect: a field of a batch has a name, which the model reads, and the rows of all samples
// expect: deleted (function|constructor)
// expect: a field of a dataset has a name, the number of elements of one sample, and the rows
// expect: rows_have_a_seed<double, false>
// expect: rows_have_a_seed<bool, false>
// expect: rows_have_a_seed<int, false>
// expect: a random choice of rows is a function of a seed
// expect: read_csv needs the fields of the file, from left to right
// expect: field_has_a_name_and_rows<false, (unsigned long|std::size_t|long unsigned int), std::vector
// expect: rows of predictions or activations are read with their type
// expect: rows_have_a_type<int, false>
// expect: are one array of numbers: give a std::vector, std::array, std::span or a built-in array
// expect: numbers are float, double, std::int32_t, std::uint8_t or gpipe::bf16: convert an array of another type
// expect: rows_have_an_element_type<long.*, false>
// errors: 11
#include <cstdint>
#include <list>
#include <vector>

#include <gpipe/data.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>

using namespace gpipe;

inline void make(const std::vector<float>& pixels) {
#ifdef GPIPE_FAIL
  batch{2}.with(pixels);
  batch{2}.with("inputs", 4, pixels);
  static_cast<void>(tensor_rows{}[0]);
  batch without_samples;
  const auto data = dataset{}.with("inputs", pixels, 4);
  static_cast<void>(dataset{}.split(0.5));
  for (const batch& part : data.batches(2, true)) static_cast<void>(part);
  for (const batch& part : data.shuffled(2)) static_cast<void>(part);
  read_csv("digits.csv");
  dataset{}.with("inputs", 1, std::list<float>{1, 2});
  dataset{}.with("labels", 1, std::vector<std::int64_t>{1, 2});
#else
  batch{2}.with("inputs", pixels);
  static_cast<void>(tensor_rows{}.all());
  const auto data = dataset{}.with("inputs", 4, pixels);
  static_cast<void>(dataset{}.split(0.5, 1));
  for (const batch& part : data.shuffled(2, 1, 1)) static_cast<void>(part);
  read_csv("digits.csv", {{"inputs", 4}});
  dataset{}.with("inputs", 1, pixels);
  dataset{}.with("labels", 1, std::vector<std::int32_t>{1, 2});
#endif
}
