// A program with -ffast-math, which lets the compiler take no number for NaN. An input that is NaN is refused all the
// same, and nothing is committed.

#include <bit>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe.hpp>

struct net : gpipe::model<gpipe::input<float, 4>, gpipe::linear<8>, gpipe::gelu, gpipe::linear<3>,
                          gpipe::softmax_cross_entropy> {};

int main() {
  std::vector<float> inputs(32, 0.25F);
  const std::vector<std::int32_t> labels(8, 1);
  inputs[5] = std::bit_cast<float>(std::uint32_t{0x7fc00000});
  gpipe::trainer<net, gpipe::adam> training{gpipe::plan_options{.stages = 2, .micro_batch_size = 8}};
  const auto before = training.parameter_hash();
  std::string said;
  try {
    training.step(gpipe::batch(8).with("inputs", inputs).with("labels", labels));
  } catch (const gpipe::error& refused) {
    said = refused.what();
  }
  const bool names = said.find("inputs") != std::string::npos || said.find("finite") != std::string::npos;
  std::cout << "NaN is refused: " << (names && training.parameter_hash() == before ? "yes" : "no") << '\n';
}
