// sanitizers: address

#include <gpipe/runtime/hooks/activation_recorder.hpp>

#include <doctest/doctest.h>

#include <array>
#include <functional>

#include <gpipe/device/host/host.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// One layer that reads value 0 and writes value 1, each of two floats a sample, with all its memory.
struct one_layer {
  value values[2] = {{{2, dtype::float32}, -1, false, 0, 1}, {{2, dtype::float32}, 0, true, 1, 0}};
  expanded_layer layers[1];
  network net;
  layer_type layer;
  std::array<float, 8> in{}, out{1, 2, 3, 4, 5, 6, 7, 8}, in_gradient{}, out_gradient{9, 8, 7, 6};
  std::array<double, 1> partials{0.5};
  alignas(64) float flat[3 * 16] = {};
  detail::bound_layer b;
  detail::watched_rows rows;
  digest hashes{{"layer"}, 2, 2};
  detail::activation_recorder recorder{net, 1};
  call done;
  step_context step;
  device_context c{device_of<host_device>, 0};

  one_layer() {
    net.values = values;
    net.layers = layers;
    static constexpr partial partial_names[] = {"sum"};
    layer.partials = partial_names;
    layer.partial_count = 1;
    b.layer = &layer;
    b.layer_index = 0;
    b.inputs = b.outputs = 1;
    b.value_out[0] = 1;
    b.in_gradient[0].base = reinterpret_cast<std::byte*>(in_gradient.data());
    b.out[0].base = reinterpret_cast<std::byte*>(out.data());
    b.out_gradient[0].base = reinterpret_cast<std::byte*>(out_gradient.data());
    b.owned = {reinterpret_cast<std::byte*>(flat), reinterpret_cast<std::byte*>(flat + 16), 0};
    done.partials = partials.data();
    rows.outputs.add(values[1].part, 4);
    rows.gradients.add(values[1].part, 4);
    step.rows.samples = 3;
    step.per_micro_batch = 2;
  }
  digest recorded(const std::function<void(one_layer&)>& change = {}) {
    if (change) change(*this);
    hashes.open();
    recorder.record_in(hashes);
    recorder.after_forward(c, b, done, step, 0);
    recorder.after_input_part(c, b, step, 0);
    recorder.after_parameter_part(c, b, step, 0);
    recorder.after_update(c, b, reinterpret_cast<const std::byte*>(flat + 32), 16 * sizeof(float));
    hashes.close({0, 0});
    return hashes;
  }
};

}  // namespace

TEST_CASE("the rows of a micro-batch are copied to the rows of its samples, but not in a measurement or a diagnosis") {
  one_layer s;
  s.b.watched = &s.rows;
  s.rows.outputs.resize(3), s.rows.gradients.resize(3);
  s.recorder.after_forward(s.c, s.b, s.done, s.step, 1);
  s.recorder.before_backward(s.c, s.b, s.step, 0);
  const auto is = [](const tensor_rows& rows, std::array<float, 6> expected) {
    for (std::size_t i = 0; i < 6; ++i) CHECK(rows.all()[i] == expected[i]);
  };
  is(s.rows.outputs, {0, 0, 0, 0, 1, 2});  // the last micro-batch has one sample
  is(s.rows.gradients, {9, 8, 7, 6, 0, 0});
  s.out[0] = s.out_gradient[0] = 100;
  for (const pass_kind other : {pass_kind::measure, pass_kind::diagnose}) {
    s.step.begin(other);
    s.recorder.after_forward(s.c, s.b, s.done, s.step, 1);
    s.recorder.before_backward(s.c, s.b, s.step, 0);
  }
  is(s.rows.outputs, {0, 0, 0, 0, 1, 2});
  is(s.rows.gradients, {9, 8, 7, 6, 0, 0});
  for (const pass_kind forward : {pass_kind::evaluate, pass_kind::predict}) {
    s.step.begin(forward);
    s.out[0] += 1;
    s.recorder.after_forward(s.c, s.b, s.done, s.step, 1);
    is(s.rows.outputs, {0, 0, 0, 0, s.out[0], 2});
  }
}

TEST_CASE("hashes cover the values that a layer wrote for samples that exist") {
  constexpr parameter parameters[] = {{"weight", {2}}};
  const auto differs = [&](const std::function<void(one_layer&)>& change) {
    const auto made = [&](const std::function<void(one_layer&)>& how) {
      one_layer s;
      s.layer.parameters = parameters;
      s.layer.parameter_count = 1;
      s.b.owned.bytes = s.layer.parameter_bytes();
      return s.recorded(how);
    };
    const auto found = first_difference(made({}), made(change));
    return found ? found->action : "";
  };
  CHECK(differs({}) == "");
  CHECK(differs([](one_layer& s) { s.out[3] = 0; }) == "forward");
  CHECK(differs([](one_layer& s) { s.out[4] = 0; }) == "");  // of no sample
  CHECK(differs([](one_layer& s) { s.partials[0] = 0; }) == "forward");
  CHECK(differs([](one_layer& s) { s.in_gradient[3] = 1; }) == "backward input");
  CHECK(differs([](one_layer& s) { s.flat[16] = 1; }) == "backward parameters");
  CHECK(differs([](one_layer& s) { s.flat[1] = 1; }) == "update");
  CHECK(differs([](one_layer& s) { s.flat[33] = 1; }) == "update");  // its moment
}
