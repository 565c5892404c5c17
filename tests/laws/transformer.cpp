// sanitizers: none

// The paper's Transformers (Huang et al., 2019, table 1) as trained in the paper: a batch of 32, recompute, 12 bytes
// per parameter. Each stage fits its 16 GB, and activations need no more than the paper reports. Packed copies of the
// weights are not counted: the host's kernels have them, a TPU multiplies by the weights as they are.

#include <gpipe/model/transformer.hpp>

#include <doctest/doctest.h>

#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/runtime_plan.hpp>

using namespace gpipe;

namespace {

template <int Blocks>
void fits_as_in_the_paper(int stages, double paper_gigabytes) {
  CAPTURE(Blocks);
  const network& net = network_of<transformer<Blocks>>;
  const runtime_plan p = make_plan(net, {.stages = stages,
                                     .micro_batches = 32,
                                     .micro_batch_size = 1,
                                     .recompute = recompute_mode::always,
                                     .optimizer_moments = 1,
                                     .device = tpu_v3_core});
  std::int64_t activations = 0, trained = 0;
  for (int s = 0; s < stages; ++s) {
    const stage_memory& m = p.memory(s);
    const std::int64_t needed = m.total() - m.of(memory_kind::derived);
    CHECK(needed <= tpu_v3_core.memory_bytes);
    const std::int64_t parameters =
        m.of(memory_kind::parameters) + m.of(memory_kind::gradients) + m.of(memory_kind::moments);
    trained += parameters;
    activations += needed - parameters;
  }
  CHECK(static_cast<double>(activations) * 1e-9 <= paper_gigabytes);
  CHECK(static_cast<double>(activations) * 1e-9 > paper_gigabytes / 30);
  CHECK(trained == 12 * static_cast<std::int64_t>(net.parameters()));
}

}  // namespace

TEST_CASE("three blocks on one device") { fits_as_in_the_paper<3>(1, 11.7); }
TEST_CASE("13 blocks on one device") { fits_as_in_the_paper<13>(1, 6.4); }
TEST_CASE("103 blocks on 8 devices") { fits_as_in_the_paper<103>(8, 50.9); }
TEST_CASE("415 blocks on 32 devices") { fits_as_in_the_paper<415>(32, 199.9); }
TEST_CASE("1663 blocks on 128 devices") { fits_as_in_the_paper<1663>(128, 796.1); }
