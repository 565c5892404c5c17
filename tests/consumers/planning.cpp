// A program that plans and does not train: it compiles quickly wherever gpipe is found.

#include <iostream>

#include <gpipe/plan.hpp>
#include <gpipe/version.hpp>

struct net : gpipe::model<gpipe::input<float, 64>, gpipe::repeat<6, gpipe::linear<64>, gpipe::relu>, gpipe::linear<10>,
                          gpipe::softmax_cross_entropy> {};

using three_stages = gpipe::plan<net, gpipe::stages<3>, gpipe::micro_batches<12>, gpipe::micro_batch_size<4>>;
static_assert(three_stages::bubble() < 0.16);

int main() {
  const auto [major, minor, patch] = gpipe::version;
  std::cout << "gpipe " << major << '.' << minor << '.' << patch << " idles for 1/" << 1 / three_stages::bubble()
            << '\n';
}
