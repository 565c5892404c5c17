// compiled: alone
// sanitizers: none
// check: whole

#include <doctest/doctest.h>

#include "support/chains.hpp"
#include "support/nets.hpp"
#include "support/sanitized.hpp"

#include <gpipe/make_plan.hpp>

using namespace laws;

namespace {

/// The README's network.
struct readme_net
    : model<input<float, 64>, linear<512>, gelu, repeat<8, residual<layer_norm, linear<512>, gelu, linear<512>>>,
            linear<10>, softmax_cross_entropy> {};

/// Under a sanitizer one plan of this many: no multiple of the 18 plans of a number of stages, so that each M, number
/// of moments and mode has its turn. The builds without a sanitizer make every plan.
constexpr int plan_step = sanitized ? 29 : 1;

/// No stage's arena is more than `percent` above its largest amount of live bytes, or `percent_never` if each
/// micro-batch has its own set: a buffer cannot lie partly in its set and partly in the shared part.
template <class Net>
void is_near_the_bound(int samples, int percent = 5, int percent_never = 8) {
  constexpr const network& net = network_of<Net>;
  int turn = 0;
  for (int S = 1; S <= net.layer_count; ++S)
    for (const int M : {1, 2, 5})
      for (const int moments : {0, 2})
        for (const auto mode : {recompute_mode::always, recompute_mode::except_last, recompute_mode::never}) {
          if (turn++ % plan_step != 0) continue;
          const step_plan plan = make_plan(net, {.stages = S,
                                                 .micro_batches = M,
                                                 .micro_batch_size = samples,
                                                 .recompute = mode,
                                                 .optimizer_moments = moments});
          for (int s = 0; s < S; ++s) {
            const stage_memory& m = plan.memory(s);
            const int allowed = mode == recompute_mode::never ? percent_never : percent;
            const bool near = 100 * m.total() <= (100 + allowed) * m.lower_bound;
            CAPTURE(S);
            CAPTURE(s);
            CAPTURE(M);
            CAPTURE(static_cast<int>(mode));
            CAPTURE(m.total());
            CAPTURE(m.lower_bound);
            CHECK(near);
            CHECK(m.lower_bound <= m.total());
            CHECK(m.total() <= m.naive);
          }
        }
}

}  // namespace

TEST_CASE("an arena is at most 5 percent above its largest amount of live bytes, 7 without recompute") {
  is_near_the_bound<residual_net<float>>(4);
  is_near_the_bound<skip_net<float>>(4);
  is_near_the_bound<pair_net<double>>(4);
  is_near_the_bound<integer_net<float>>(4);
  is_near_the_bound<readme_net>(8, 1, 1);
  is_near_the_bound<digits_net>(8, 1, 2);
  is_near_the_bound<transformer<3, 32, 64, 128>>(4);
  is_near_the_bound<transformer<6, 128, 256, 256>>(1);
  is_near_the_bound<transformer<6, 128, 256, 256>>(8);
  is_near_the_bound<u_net<64>>(8);
}
