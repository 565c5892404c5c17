// sanitizers: address

#include <gpipe/runtime/hooks/activation_recorder.hpp>

#include <doctest/doctest.h>

#include <array>
#include <functional>

#include <gpipe/device/host/host.hpp>

using namespace gpipe;

namespace {

using context = host::context;

/// One slot that reads value 0 and writes value 1, two floats a sample each, with all its memory.
struct one_slot {
  value values[2] = {{{2, dtype::float32}, -1, false, 0, 1}, {{2, dtype::float32}, 0, true, 1, 0}};
  slot slots[1];
  network net;
  row layer;
  std::array<float, 8> in{}, out{1, 2, 3, 4, 5, 6, 7, 8}, in_gradient{}, out_gradient{9, 8, 7, 6};
  std::array<double, 1> partials{0.5};
  alignas(64) float flat[3 * 16] = {};
  detail::bound_slot<context> b;
  detail::watched_rows rows;
  digest notes{{"layer"}, 2, 2};
  detail::observer<context> eye{net, 1};
  call done;
  step_state step;
  context c;

  one_slot() {
    net.values = values;
    net.slots = slots;
    static constexpr partial partials_told[] = {"told"};
    layer.partials = partials_told;
    layer.partial_count = 1;
    b.layer = &layer;
    b.slot = 0;
    b.inputs = b.outputs = 1;
    b.value_out[0] = 1;
    b.in_gradient[0].base = reinterpret_cast<std::byte*>(in_gradient.data());
    b.out[0].base = reinterpret_cast<std::byte*>(out.data());
    b.out_gradient[0].base = reinterpret_cast<std::byte*>(out_gradient.data());
    b.parameters = reinterpret_cast<std::byte*>(flat);
    b.gradients = reinterpret_cast<std::byte*>(flat + 16);
    done.partials = partials.data();
    rows.outputs.add(values[1].part, 4);
    rows.gradients.add(values[1].part, 4);
    step.rows.samples = 3;
    step.per_micro_batch = 2;
  }
  digest looked(const std::function<void(one_slot&)>& change = {}) {
    if (change) change(*this);
    notes.open();
    eye.note_in(notes);
    eye.after_forward(c, b, done, step, 0);
    eye.after_input_part(c, b, step, 0);
    eye.after_parameter_part(c, b, step, 0);
    eye.after_update(c, b, 16 * sizeof(float));
    notes.close({0, 0});
    return notes;
  }
};

}  // namespace

TEST_CASE("the rows of a micro-batch are copied to their samples' places, in training alone") {
  one_slot s;
  s.b.watched = &s.rows;
  s.rows.outputs.hold(3), s.rows.gradients.hold(3);
  s.eye.after_forward(s.c, s.b, s.done, s.step, 1);
  s.eye.before_backward(s.c, s.b, s.step, 0);
  const auto is = [](const sample_rows& rows, std::array<float, 6> expected) {
    for (std::size_t i = 0; i < 6; ++i) CHECK(rows.all()[i] == expected[i]);
  };
  is(s.rows.outputs, {0, 0, 0, 0, 1, 2});  // of the last micro-batch's one sample
  is(s.rows.gradients, {9, 8, 7, 6, 0, 0});
  s.out[0] = s.out_gradient[0] = 100;
  for (const bool examining : {false, true}) {
    s.step.training = examining;
    s.step.examining = examining;
    s.eye.after_forward(s.c, s.b, s.done, s.step, 1);
    s.eye.before_backward(s.c, s.b, s.step, 0);
  }
  is(s.rows.outputs, {0, 0, 0, 0, 1, 2});
  is(s.rows.gradients, {9, 8, 7, 6, 0, 0});
}

TEST_CASE("hashes are of what a layer wrote for the samples that there are") {
  constexpr parameter parameters[] = {{"weight", {2}}};
  const auto differs = [&](const std::function<void(one_slot&)>& change) {
    const auto made = [&](const std::function<void(one_slot&)>& how) {
      one_slot s;
      s.layer.parameters = parameters;
      s.layer.parameter_count = 1;
      return s.looked(how);
    };
    const auto found = first_difference(made({}), made(change));
    return found ? found->action : "";
  };
  CHECK(differs({}) == "");
  CHECK(differs([](one_slot& s) { s.out[3] = 0; }) == "forward");
  CHECK(differs([](one_slot& s) { s.out[4] = 0; }) == "");  // of no sample
  CHECK(differs([](one_slot& s) { s.partials[0] = 0; }) == "forward");
  CHECK(differs([](one_slot& s) { s.in_gradient[3] = 1; }) == "backward input");
  CHECK(differs([](one_slot& s) { s.flat[16] = 1; }) == "backward parameters");
  CHECK(differs([](one_slot& s) { s.flat[1] = 1; }) == "update");
  CHECK(differs([](one_slot& s) { s.flat[33] = 1; }) == "update");  // its moment
}
