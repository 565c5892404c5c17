// Planning without an installation: paste this program and gpipe_plan.hpp into an online compiler. The compiler finds
// the best cut, the time of a step and the memory of each stage.
#include "gpipe_plan.hpp"

#include <cstdio>

using namespace gpipe;

struct block : residual<layer_norm, linear<1024>, gelu, linear<256>> {};
struct net : model<input<float, 64>, linear<256>, repeat<12, block>, layer_norm, linear<10>, softmax_cross_entropy> {};

template <class Schedule>
using on_four = plan<net, stages<4>, micro_batches<16>, micro_batch_size<64>, schedule<Schedule>, on_device<a100_80gb>>;
using filled = on_four<fill_drain>;

// The model: 64 layers, six million parameters.
static_assert(filled::L == 64 && filled::parameters() == 6'332'682);

// The best cut. No cut takes less time, for the step is the lower bound of all cuts.
static_assert(filled::cut().first[1] == 16 && filled::cut().first[2] == 32 && filled::cut().first[3] == 47);
static_assert(filled::makespan() == filled::lower_bound());

// The step. 1F1B takes as long and keeps fewer micro-batches; ZB-H1 takes less time.
static_assert(on_four<zb_h1>::makespan() < filled::makespan());

// The memory. A promise that does not hold is an error with the stage and its bytes.
static_assert(on_four<one_f_one_b>::memory(3).total() < filled::memory(3).total());
static_assert(require_fits<filled, 1_GiB>());

int main() { std::fputs(describe<filled>().c_str(), stdout); }
