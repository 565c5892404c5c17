// optimize: yes

#include <gpipe/model/structure/items.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/layer_types.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

namespace {

// A second input in the middle, and the same field again later.
struct net : model<input<float, 4>, linear<6>, from<"context", tensor<float, 3>>, concat<>, linear<5>, relu,
                   from<"context", tensor<float, 3>>, concat<>, linear<3>, softmax_cross_entropy> {};
constexpr network n = network_of<net>;
static_assert(n.layer_count == 9 && n.field_count == 3 && n.type_of(1).inputs == 0 && n.type_of(1).outputs == 1);
static_assert(std::string_view(n.fields[0].name) == "context" && n.fields[0].size == 3 && !n.fields[0].optional);
static_assert(n.reads_value(2, 0) == 1 && n.reads_value(2, 1) == 2, "the edge first, then the field");
static_assert(!n.values[2].gradient && n.values[1].gradient);
static_assert(n.parameters() == 5 * 6 + 10 * 5 + 9 * 3);
static_assert(std::is_same_v<detail::bound_layer_type<net, 1>::output, tensor<float, 3>>);
static_assert(std::is_same_v<detail::bound_layer_type<in_bf16<net>, 1>::output, tensor<bf16, 3>>);
static_assert(network_of<in_bf16<net>>.fields[0].type == dtype::float32, "the data stay floats");

// A second input that goes on alone is rounded as one beside the edge.
struct anew : model<input<float, 4>, linear<3>, stash<"first">, only<from<"context", tensor<float, 3>>>, linear<3>,
                    pop<"first">, add, softmax_cross_entropy> {};
static_assert(std::is_same_v<detail::bound_layer_type<anew, 1>::output, tensor<float, 3>>);
static_assert(std::is_same_v<detail::bound_layer_type<in_bf16<anew>, 1>::output, tensor<bf16, 3>>);

// Two features decide the class: one is in the input, one in the further field.
struct table {
  std::vector<float> x, context;
  std::vector<std::int32_t> labels;
  table() {
    for (int i = 0; i < 90; ++i) {
      const int a = i % 3, b = i / 3 % 3;
      for (int k = 0; k < 4; ++k) x.push_back(k == a ? 1.0F : 0.0F);
      for (int k = 0; k < 3; ++k) context.push_back(k == b ? 1.0F : 0.0F);
      labels.push_back((a + b) % 3);
    }
  }
  dataset data() const { return dataset{}.with("inputs", 4, x).with("context", 3, context).with("labels", 1, labels); }
};

template <class Model>
std::uint64_t trained(const plan_options& how, double& accuracy) {
  const dataset data = table().data();
  trainer<Model, adam> training(how, adam{.learning_rate = 0.02});
  for (int epoch = 0; epoch < 60; ++epoch) {
    auto batches = data.shuffled(30, 1, static_cast<std::uint64_t>(epoch));
    for (const batch& next : batches) training.step(next);
  }
  accuracy = training.evaluate(data).accuracy();
  return training.parameter_hash();
}

}  // namespace

TEST_CASE_TEMPLATE("a model learns from its second input, with the same bits for every cut", Model, net, in_bf16<net>) {
  double first = 0, accuracy = 0;
  const std::uint64_t hash = trained<Model>({.stages = 1, .micro_batches = 3, .micro_batch_size = 10}, first);
  CHECK(first > 0.7);  // 1/3 from one of the two inputs alone
  for (const int stages : {2, 5, 9}) {
    CAPTURE(stages);
    CHECK(trained<Model>({.stages = stages, .micro_batches = 3, .micro_batch_size = 10}, accuracy) == hash);
    CHECK(accuracy == first);
  }
}

TEST_CASE("a batch without the field is refused by the field's name") {
  const table t;
  trainer<net, sgd> training(plan_options{.micro_batches = 3, .micro_batch_size = 30});
  CHECK_THROWS_WITH_AS(training.step(batch(90).with("inputs", t.x).with("labels", t.labels)),
                       doctest::Contains("lacks the field \"context\""), error);
}

TEST_CASE("a number of the field that is not finite is named, with its sample and column") {
  table t;
  t.context[3 * 41 + 2] = std::numeric_limits<float>::quiet_NaN();
  trainer<net, sgd> training(plan_options{.stages = 3, .micro_batches = 3, .micro_batch_size = 30});
  CHECK_THROWS_WITH_AS(
      training.step(batch(90).with("inputs", t.x).with("context", t.context).with("labels", t.labels)),
      doctest::Contains("the field \"context\" of the data is not finite in sample 41, column 2 (counted from 0)"),
      error);
}
