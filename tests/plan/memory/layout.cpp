#include <gpipe/plan/memory/layout.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/bias.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

//   layer   0 halve  1 cross  2 join  3 relu  4 add   5 softmax_cross_entropy
//   writes  1 2      3 4      5       6       7
struct net : model<input<float, 64>, halve, cross, join, stash<"x">, relu, pop<"x">, add, softmax_cross_entropy> {};
constexpr const network& n = network_of<net>;
constexpr int first[] = {0, 3, 6}, all[] = {0, 6};
constexpr stage_view whole(n, {all, 1}, 0), s0(n, {first, 2}, 0), s1(n, {first, 2}, 1);

// A sample of tensor<float, 64> is 256 bytes, each half 128, the weight of `cross` 128.
constexpr memory_requirements terms{.micro_batches = 5,
                                    .micro_batch_size = 2,
                                    .in_flight = 4,
                                    .kept_copies = 3,
                                    .moments = 2,
                                    .stash = {5, 6},
                                    .returned = {2, 3}};
constexpr std::int64_t B = 2;

constexpr stage_memory m = memory_of(whole, terms);
static_assert(m.of(memory_kind::parameters) == 128 && m.of(memory_kind::gradients) == 128);
static_assert(m.of(memory_kind::moments) == 2 * 128);
static_assert(m.of(memory_kind::derived) == 0);
static_assert(m.of(memory_kind::partials) == 5 * 64);                              // three numbers
static_assert(m.of(memory_kind::stash) == 4 * (256 * B + 64 + 64));                // inputs, labels, weights
static_assert(m.of(memory_kind::kept) == 3 * (256 * B + 256 * B + 256 * B + 64));  // of halve, relu, add; the summary
static_assert(m.of(memory_kind::returned) == 0);
// Forward needs the outputs of cross and join at one time. Backward needs gradients of three: of add's output and both
// inputs, then of relu's output, of join's and relu's share of that; one lies where the loss has read what it kept.
static_assert(m.of(memory_kind::transient) == 2 * 256 * B);
static_assert(m.total() == [] {
  std::int64_t sum = 0;
  for (const auto b : m.bytes) sum += b;
  return sum;
}());

// Gradients between layers, and what a residual adds to them, do not add up with depth. (An odd number of residuals
// packs a little better.)
template <int N>
struct deep : model<input<float, 16>, linear<16>, repeat<N, residual<gpipe::bias>>, softmax_cross_entropy> {};
template <int N>
constexpr std::int64_t passing() {
  const int one_stage[] = {0, network_of<deep<N>>.layer_count};
  return memory_of(stage_view(network_of<deep<N>>, {one_stage, 1}, 0), {1, 1, 1, 1, 1}).of(memory_kind::transient);
}
static_assert(passing<2>() == passing<10>());

// Without sharing: what cross and join write, the gradients of four layers' outputs, relu's share.
static_assert(m.naive == m.total() - m.of(memory_kind::transient) + (2 + 4 + 1) * 256 * B);
// Only the bytes of the loss's summary are free at that time.
static_assert(m.lower_bound == m.total() - 64);

// A single set lends its bytes to the gradients: only forward's outputs lie above it.
constexpr memory_requirements alone{.micro_batches = 5, .micro_batch_size = 2, .in_flight = 4};
constexpr stage_memory one = memory_of(whole, alone);
static_assert(one.of(memory_kind::kept) == 3 * 256 * B + 64);
static_assert(one.of(memory_kind::transient) == 2 * 256 * B);
static_assert(one.lower_bound == one.total() - 64);

// A workspace of 512 bytes lies beside the gradients of its layer's output and input, 128 each, once for all
// micro-batches; what the loss keeps, 128 and a summary, has been read by then.
struct working {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {16}}};
    static constexpr buffer workspace[] = {{"sums", 64, dtype::float32}};
  };
};
struct worked : model<input<float, 16>, linear<16>, working, softmax_cross_entropy> {};
constexpr int of_worked[] = {0, 3};
constexpr std::int64_t working_set(int copies, bool split) {
  const stage_memory found =
      memory_of({network_of<worked>, {of_worked, 1}, 0},
                {.micro_batches = 5, .micro_batch_size = 2, .in_flight = 4, .kept_copies = copies, .split = split});
  return found.of(memory_kind::kept) + found.of(memory_kind::transient);
}
static_assert(working_set(1, false) == 128 + 128 + 512 && working_set(1, true) == working_set(1, false));
static_assert(working_set(3, false) == 3 * (128 + 64) + 128 + 512);  // one gradient lies where the loss has read

// 512 bytes in forward alone, or in backward alone, are there once for all micro-batches; those in backward lie as the
// workspace does. If parameter parts are delayed, these are held.
template <bool InForward>
struct passing_memory {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {16}}};
    static constexpr std::size_t forward_elements = InForward ? 64 : 0, backward_elements = InForward ? 0 : 64;
    static constexpr buffer forward_workspace[] = {{"rows", forward_elements, dtype::float32}};
    static constexpr buffer backward_extras[] = {{"sums", backward_elements, dtype::float32}};
  };
};
template <bool InForward>
struct with_passing : model<input<float, 16>, linear<16>, passing_memory<InForward>, softmax_cross_entropy> {};
template <bool InForward>
constexpr stage_memory memory_with_passing(int copies, int held, bool trains = true) {
  return memory_of({network_of<with_passing<InForward>>, {of_worked, 1}, 0}, {.micro_batches = 5,
                                                                              .micro_batch_size = 2,
                                                                              .in_flight = 4,
                                                                              .kept_copies = copies,
                                                                              .split = held > 0,
                                                                              .held = held,
                                                                              .trains = trains});
}
template <bool InForward>
constexpr std::int64_t passing_set(int copies, int held = 0) {
  const stage_memory found = memory_with_passing<InForward>(copies, held);
  return found.of(memory_kind::kept) + found.of(memory_kind::transient);
}
static_assert(passing_set<false>(1) == working_set(1, false) && passing_set<false>(3) == working_set(3, false));
static_assert(memory_with_passing<false>(3, 2).of(memory_kind::held) ==
              2 * 512 + memory_with_passing<true>(3, 2).of(memory_kind::held));
static_assert(passing_set<false>(3, 2) == 3 * (128 + 64) + 128);  // above: what linear writes in forward
static_assert(passing_set<true>(1) == 128 + 64 + 128 + 512);      // kept: the loss's input and summary
static_assert(passing_set<true>(3) == 3 * (128 + 64) + 128 + 512);
// If the layer runs again, its workspace lies beside all that is kept, and what it writes again.
constexpr int runs_again[] = {-1, 2, -1};
constexpr stage_memory rerun =
    memory_of({network_of<with_passing<true>>, {of_worked, 1, runs_again}, 0}, {.micro_batch_size = 2});
static_assert(rerun.of(memory_kind::kept) == 128 + 64);
static_assert(rerun.of(memory_kind::kept) + rerun.of(memory_kind::transient) == 128 + 64 + 128 + 512);
static_assert(rerun.lower_bound == rerun.total());

// Without training parameters have values only.
constexpr stage_memory evaluated = memory_of(whole, {.micro_batches = 5, .micro_batch_size = 2, .trains = false});
static_assert(evaluated.of(memory_kind::parameters) == 128 && evaluated.of(memory_kind::gradients) == 0);
static_assert(evaluated.of(memory_kind::moments) == 0);

// In two stages the value between is written into the stash, and its gradient comes back, twice at a time.
constexpr stage_memory m0 = memory_of(s0, terms), m1 = memory_of(s1, terms);
static_assert(m0.of(memory_kind::transient) == 256 * B);  // of cross, or its gradient: join writes into stage 1
static_assert(m1.of(memory_kind::stash) == 5 * 256 * B + 4 * (64 + 64));
static_assert(m0.of(memory_kind::returned) == 2 * 256 * B && m1.of(memory_kind::returned) == 0);
static_assert(m1.of(memory_kind::transient) == 256 * B);  // of add's output: its gradient
static_assert(m1.of(memory_kind::parameters) == 0);

// Layers with state: its two averages of 3 floats, now and after the step, with a sum, and 7 partials for each
// micro-batch.
struct averaging : model<input<float, 3>, batch_norm<>, relu, softmax_cross_entropy> {};
constexpr int of_averaging[] = {0, 3};
constexpr stage_memory with_state = memory_of({network_of<averaging>, {of_averaging, 1}, 0}, terms);
static_assert(with_state.of(memory_kind::state) == 2 * 64 + (2 * 64 + 64) && m.of(memory_kind::state) == 0);
static_assert(with_state.of(memory_kind::partials) == 5 * (64 + 64));

// Both packed copies of every layer; the larger of each; and that of the largest layer alone.
struct widening : model<input<float, 16>, linear<16>, linear<48>, linear<10>, softmax_cross_entropy> {};
constexpr int of_widening[] = {0, 4};
constexpr std::int64_t packed_bytes(memory_requirements needs) {
  return memory_of({network_of<widening>, {of_widening, 1}, 0}, needs).of(memory_kind::derived);
}
constexpr std::int64_t packed_of(int rows, int columns) {
  return static_cast<std::int64_t>(sizeof(float) * packed_size(rows, columns));
}
using enum packed_weights;
static_assert(packed_bytes({.packed = kept}) ==
              2 * packed_of(16, 16) + packed_of(16, 48) + packed_of(48, 16) + packed_of(48, 10) + packed_of(10, 48));
static_assert(packed_of(16, 48) < packed_of(48, 16) && packed_of(48, 10) > packed_of(10, 48));
static_assert(packed_bytes({.packed = in_turn}) == packed_of(16, 16) + packed_of(48, 16) + packed_of(48, 10));
static_assert(packed_bytes({.trains = false, .packed = in_turn}) ==
              packed_of(16, 16) + packed_of(16, 48) + packed_of(48, 10));
static_assert(packed_bytes({.packed = on_the_way}) == packed_of(48, 16));
// A row is multiplied by 3/4 of the weights that the second layer packs, for the rest is padding; the others have more.
static_assert(packed_bytes({.micro_batch_size = 4, .packed = kept, .rows_on_the_way = 3}) ==
              2 * packed_of(16, 16) + packed_of(48, 16) + packed_of(48, 10) + packed_of(10, 48));

// One micro-batch has one gradient to return.
constexpr memory_requirements single{.micro_batches = 1, .micro_batch_size = 2};
static_assert(memory_of(s0, single).of(memory_kind::returned) == 256 * B);

std::vector<memory_block> blocks(const stage_view& s) {
  std::vector<memory_block> found;
  lay_out(s, terms, [&](const memory_block& b) { found.push_back(b); });
  return found;
}

}  // namespace

TEST_CASE("blocks are aligned, each within its kind and the arena, and the highest byte is used") {
  for (const stage_view& s : {whole, s0, s1}) {
    const stage_memory memory = memory_of(s, terms);
    std::int64_t highest = 0;
    for (const memory_block& b : blocks(s)) {
      CHECK(b.offset % alignment == 0);
      CHECK(b.bytes % alignment == 0);
      const int kind = (std::min)(static_cast<int>(b.kind), static_cast<int>(memory_kind::transient));
      const auto begin = static_cast<std::int64_t>(b.offset);
      const std::size_t stride = b.stride > 0 ? b.stride : b.bytes;
      const auto end = static_cast<std::int64_t>(b.offset + stride * static_cast<std::size_t>(b.copies - 1) + b.bytes);
      const int kept = static_cast<int>(memory_kind::kept);
      CHECK(begin >= memory.before(kind == static_cast<int>(memory_kind::transient) ? kept : kind));
      CHECK(end <= memory.before(b.stride > 0 ? kept + 1 : kind + 1));
      highest = (std::max)(highest, end);
    }
    CHECK(highest == memory.total());
  }
}

TEST_CASE("every layer has a block of parameters, gradients and moments, even an empty one") {
  int parameters = 0, moments = 0;
  for (const memory_block& b : blocks(whole)) {
    parameters += b.kind == memory_kind::parameters;
    moments += b.kind == memory_kind::moments;
  }
  CHECK(parameters == 6);
  CHECK(moments == 12);
}

TEST_CASE("kinds have names") {
  CHECK(std::string_view(name_of(memory_kind::parameters)) == "parameters");
  CHECK(std::string_view(name_of(memory_kind::workspace)) == "workspace");
  CHECK(std::string_view(name_of(memory_kind::transient)) == "transient");
  CHECK(static_cast<int>(memory_kind::transient) + 1 == memory_kinds);
}

TEST_CASE("all that layers write again has a place, however far behind their reader is") {
  struct chain : model<input<float, 8>, linear<8>, gelu, linear<8>, gelu, linear<8>, gelu, linear<8>> {};
  const network& net = network_of<chain>;
  const int every[] = {0, net.layer_count}, before[] = {-1, 6, 6, 6, -1, -1, -1};
  const stage_view stage(net, {every, 1, before}, 0);
  std::vector<int> values;
  lay_out(stage, {.micro_batches = 1, .micro_batch_size = 4}, [&](const memory_block& b) {
    if (b.kind == memory_kind::recomputed && b.value >= 0) values.push_back(b.value);
  });
  std::sort(values.begin(), values.end());
  std::string found;
  for (const int v : values) found += std::to_string(net.values[v].writer) + " ";
  CHECK(found == "1 2 3 ");
}
