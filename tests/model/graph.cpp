// compiled: alone
#include <gpipe/model/graph.hpp>

#include <doctest/doctest.h>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using laws::passing_loss;

namespace {

struct rich {
  template <class In>
  struct on {
    using output = bundle<tensor<double, 5>, tensor<std::int32_t, 2>>;
    static constexpr parameter parameters[] = {{"weight", {5, 3}}, {"bias", {5}}};
    static constexpr parameter state[] = {{"average", {3, 3}}, {"count", {1}, initializer::ones()}};
    static constexpr partial partials[] = {{"sums", 7}, "loss", {"squares", 2}};
    static constexpr buffer derived[] = {{"packed", 33, dtype::float64}, {"other", 1, dtype::uint8}};
    static constexpr buffer extras[] = {{"mask", 5, dtype::uint8}, {"mean", 1, dtype::float64}};
    static constexpr field fields[] = {{"mask", 5, dtype::uint8}};
    static constexpr keep keeps{.output = true};
    static constexpr work cost{1, 2, 3, 4};
  };
};

constexpr layer_type r = detail::describe_layer_type<bound<rich, tensor<float, 3, 4>>>();
static_assert(r.inputs == 1 && r.in[0].size == 12 && r.in[0].type == dtype::float32);
static_assert(r.outputs == 2 && r.out[0].size == 5 && r.out[1].size == 2 && r.out[1].type == dtype::int32);
static_assert(r.type == dtype::float64);  // the type of its output, because it names none
static_assert(r.parameter_count == 2 && r.parameter_elements() == 20);
static_assert(r.parameter_bytes() == 128 + 64);                                // 120 and 40 bytes, each aligned
static_assert(r.state_count == 2 && r.state_bytes() == 128 + 64);              // 72 and 8
static_assert(r.derived_bytes() == 320 + 64);                                  // 264 and 1
static_assert(r.extra_bytes(1) == 64 + 64 && r.extra_bytes(13) == 128 + 128);  // 65 and 104
static_assert(r.field_count == 1 && r.weight == -1);
static_assert(r.partial_count == 3 && r.partial_elements() == 10 && r.partial_bytes() == 128 && r.loss == 7);
static_assert(r.keeps.output && !r.keeps.input && !r.view && r.cost.backward_parameters == 3);

constexpr layer_type loss = detail::describe_layer_type<bound<passing_loss, tensor<float, 7>>>();
static_assert(loss.loss == 1 && loss.weight == 0 && loss.correct == -1);  // found by name, not by position

static_assert(edge_part{3, dtype::float32}.bytes(5) == 64 && edge_part{3, dtype::float32}.bytes(6) == 128);

// Two layers written by hand: both read value 0, which enters; the second reads it as its input 1.
constexpr layer_type rows[] = {r, loss};
constexpr expanded_layer layers[] = {{0, 0, 1, 1, 1}, {1, 1, 2, 2, 1}};
constexpr gpipe::detail::read reads[] = {{0, 0}, {1, 1}, {0, 1}};
constexpr int readers[] = {0, 2, 1};
constexpr value values[] = {{{}, -1, false, 0, 2}, {{}, 0, true, 2, 1}, {{}, 1, true, 3, 0}};
constexpr network net{rows, layers, values, reads, readers, nullptr, 2, 2, 3, 3, 0, 1, dtype::float64};
static_assert(net.type_of(1).name == loss.name);
static_assert(net.reads_value(1, 0) == 1 && net.reads_value(1, 1) == 0);
static_assert(net.writes_value(1, 0) == 2);
static_assert(net.reader(0, 0) == 0 && net.reader(0, 1) == 1 && net.reader(1, 0) == 1);
static_assert(net.parameters() == 20);
static_assert(net.loss_layer() == 1);

}  // namespace

TEST_CASE("a layer type has its layer's name") {
  CHECK(r.name.find("rich") != std::string_view::npos);
  CHECK(loss.name == "laws::passing_loss");
}
