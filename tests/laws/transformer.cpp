// sanitizers: none

// The paper's Transformers (Huang et al., 2019, table 1) as trained in the paper: a batch of 32, recompute, 12 bytes
// per parameter. Each stage fits its 16 GB. Packed copies of the weights are not counted: the host's kernels have them,
// a TPU multiplies by the weights as they are.
//
// Activations obey a model within 10 %, stage by stage. With u the bytes of a tensor of all tokens and b the stage's
// blocks, it is
//
//     32 u for each tensor that crosses the cut before it    inputs that wait for backward
//     12 u b                                                 one micro-batch's values for backward: inputs of four
//                                                            layers, [q k v] and heads, one of width 4 d
//      8 u b except in the first stage                       gradients that its delayed parameter parts read, also one
//                                                            of width 4 d, in backward alone
//      4 u   except in the first stage                       the workspace of attention: gradients of [q k v] and heads
//     the logits in the last stage
//
// The first stage has that workspace where values have been read. In pipelines all that is less than half of what the
// paper reports.

#include <gpipe/model/transformer.hpp>

#include <doctest/doctest.h>

#include <gpipe/make_plan.hpp>
#include <gpipe/plan/cost/device_spec.hpp>

using namespace gpipe;

namespace {

/// One micro-batch's bytes of a tensor of all tokens, and of the logits.
constexpr double u = 4.0 * 1024 * 2048, logits = 4.0 * 1024 * 32'000;

double model_of(const gpipe::cut& cut, int s) {
  const double blocks = (cut.first[s + 1] - cut.first[s]) / 6.0;
  // A block's layers are norm, attention, sum, norm, feed-forward, sum; layer 0 is the embedding. Behind a norm its
  // input, which the sum reads, crosses too.
  const int tensors = s == 0 ? 0 : (cut.first[s] - 1) % 3 == 0 ? 1 : 2;
  return u * (32 * tensors + 12 * blocks + (s == 0 ? 0 : 8 * blocks + 4)) + (s + 1 == cut.stages ? logits : 0);
}

template <int Blocks>
void fits_as_in_the_paper(int stages, double paper_gigabytes, double share) {
  CAPTURE(Blocks);
  const network& net = network_of<transformer<Blocks>>;
  const step_plan p = make_plan(net, {.stages = stages,
                                      .micro_batches = 32,
                                      .micro_batch_size = 1,
                                      .recompute = recompute_mode::always,
                                      .optimizer_moments = 1,
                                      .device = tpu_v3_core});
  double activations = 0;
  std::int64_t trained = 0;
  for (int s = 0; s < stages; ++s) {
    CAPTURE(s);
    const stage_memory& m = p.memory(s);
    const std::int64_t needed = m.total() - m.of(memory_kind::derived);
    CHECK(needed <= tpu_v3_core.memory_bytes);
    const std::int64_t parameters =
        m.of(memory_kind::parameters) + m.of(memory_kind::gradients) + m.of(memory_kind::moments);
    trained += parameters;
    activations += static_cast<double>(needed - parameters);
    CHECK(static_cast<double>(needed - parameters) == doctest::Approx(model_of(p.cut(), s)).epsilon(0.1));
  }
  CHECK(activations * 1e-9 == doctest::Approx(share * paper_gigabytes).epsilon(0.1));
  CHECK(trained == 12 * static_cast<std::int64_t>(net.parameters()));
}

}  // namespace

// The paper's first line is without recompute, and its second has one partition.
TEST_CASE("three blocks on one device") { fits_as_in_the_paper<3>(1, 11.7, 0.047); }
TEST_CASE("13 blocks on one device") { fits_as_in_the_paper<13>(1, 6.4, 0.23); }
TEST_CASE("103 blocks on 8 devices") { fits_as_in_the_paper<103>(8, 50.9, 0.42); }
TEST_CASE("415 blocks on 32 devices") { fits_as_in_the_paper<415>(32, 199.9, 0.43); }
TEST_CASE("1663 blocks on 128 devices") { fits_as_in_the_paper<1663>(128, 796.1, 0.45); }
