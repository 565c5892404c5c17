// expect: a training is saved and loaded by another header: #include <gpipe/checkpoint.hpp>
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/train.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/checkpoint.hpp>
#endif

using namespace gpipe;

struct net : model<input<float, 4>, linear<4>, softmax_cross_entropy> {};
void save(trainer<net, sgd>& training) { training.save("folder"); }
