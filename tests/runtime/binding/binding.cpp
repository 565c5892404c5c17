// sanitizers: address

#include <gpipe/runtime/binding/binding.hpp>

#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include <gpipe/device/host/host.hpp>

using namespace gpipe;
using namespace gpipe::detail;
using gpipe::detail::arena_map;

TEST_CASE("arena_map finds a block by its content, and a copy by the slot of its micro-batch") {
  std::byte arena[512];
  arena_map map(arena);
  map.add({memory_kind::parameters, 3, -1, 0, 64, 64});
  map.add({memory_kind::stash, -1, 7, 1, 128, 64, 3});
  const int first[] = {2, 0, 1}, later[] = {2, 1, 0};
  const detail::slot_table memory_slots(first, later);

  CHECK(map.find(memory_kind::parameters, 3, -1).at(2, false) == arena + 64);
  CHECK(map.find(memory_kind::parameters, 3, -1, memory_slots).at(0, true) == arena + 64);  // one copy for all
  const auto stashed = map.find(memory_kind::stash, -1, 7, memory_slots, 1);
  CHECK(stashed.at(0, false) == arena + 256);
  CHECK(stashed.at(1, false) == arena + 128);
  CHECK(stashed.at(2, false) == arena + 192);
  CHECK(stashed.at(1, true) == arena + 192);  // another slot in recompute and backward

  CHECK(map.has(memory_kind::stash, -1, 7, 1));
  CHECK(!map.has(memory_kind::stash, -1, 7));
  CHECK(!map.has(memory_kind::kept, -1, 7, 1));
  CHECK_THROWS_AS(map.find(memory_kind::kept, -1, 7), std::out_of_range);
  CHECK(detail::block_address{}.at(5, false) == nullptr);
}

namespace {

using context = host::context;

/// The step's second micro-batch has 1 of its 2 samples.
step_context step_of_three() {
  step_context step;
  step.rows.samples = 3;
  step.per_micro_batch = 2;
  step.seed = 5, step.step = 6, step.samples_before = 10;
  return step;
}

}  // namespace

TEST_CASE("call_of finds the slot of a micro-batch in forward and in backward") {
  std::array<std::byte, 256> memory{};
  const int forward[] = {0, 1}, again[] = {1, 0};
  layer_type layer;
  detail::bound_layer b;
  b.layer = &layer;
  b.layer_index = 4;
  b.inputs = b.outputs = 1;
  b.in[0] = {memory.data(), 16, detail::slot_table(forward, again)};
  b.out[0] = {memory.data() + 64, 16, {}};
  b.partials = {memory.data() + 128, 64, detail::slot_table(forward)};
  step_context step = step_of_three();
  const call first = detail::call_of(b, step, 2, 1, false), later = detail::call_of(b, step, 2, 1, true);
  CHECK(first.in[0] == memory.data() + 16);
  CHECK(later.in[0] == memory.data());
  CHECK(first.out[0] == memory.data() + 64);
  CHECK(first.samples == 1);
  CHECK(first.capacity == 2);
  CHECK(first.training);
  CHECK(first.micro_batches == 2);
  CHECK(first.partials == reinterpret_cast<double*>(memory.data() + 192));
  CHECK(first.partial_stride == 8);
  CHECK(detail::call_of_all(b, step, 2).partials == reinterpret_cast<double*>(memory.data() + 128));
  step.begin(pass_kind::evaluate);
  CHECK(!detail::call_of(b, step, 2, 1, false).training);
}

TEST_CASE("feed uploads the rows of the micro-batch, and ones for a missing field") {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  constexpr field fields[] = {{"weights", 1, dtype::float32, 0, true}};
  const int fields_of_row[] = {0};
  value values[1] = {{{2, dtype::float32}, -1, false, 0, 1}};
  network net;
  net.values = values;
  net.entering = 1;
  layer_type layer;
  layer.fields = fields;
  layer.field_count = 1;
  layer.field_index[0] = fields_of_row[0];
  std::array<float, 4> stash{}, weights{};
  detail::bound_layer b;
  b.layer = &layer;
  b.inputs = 1;
  b.value_in[0] = 0;
  b.in[0].base = reinterpret_cast<std::byte*>(stash.data());
  b.fields[0].base = reinterpret_cast<std::byte*>(weights.data());
  step_context step = step_of_three();
  step.rows.inputs = reinterpret_cast<const std::byte*>(x.data());
  step.rows.fields = {nullptr};
  detail::feed(context{}, net, b, step, 1);
  CHECK(stash == std::array<float, 4>{5, 6, 0, 0});
  CHECK(weights == std::array<float, 4>{1, 0, 0, 0});
}
