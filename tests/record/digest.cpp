#include <gpipe/record/digest.hpp>

#include <doctest/doctest.h>

#include <functional>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

const std::vector<std::string> layers{"first", "second"};

/// Two calls of one step and a third, of two micro-batches; `change` may leave different bits in the second.
digest made(const std::function<void(digest&)>& change = {}, std::size_t room = 3) {
  digest all(layers, 2, room);
  for (int call = 0; call < 3; ++call) {
    all.open();
    all.put(action_kind::idle, -1, -1, 1);
    for (int l = 0; l < 2; ++l) {
      for (int m = 0; m < 2; ++m)
        for (const action_kind kind :
             {action_kind::forward, action_kind::backward_input, action_kind::backward_parameters})
          all.put(kind, m, l, static_cast<std::uint64_t>(100 * m + 10 * l + static_cast<int>(kind)));
      all.put(action_kind::update, -1, l, 2);
    }
    if (call == 1 && change) change(all);
    all.close({call == 2 ? 6U : 5U, call % 2});
  }
  return all;
}

location difference(const std::function<void(digest&)>& change) {
  const auto found = first_difference(made(), made(change));
  REQUIRE(found);
  return *found;
}

}  // namespace

TEST_CASE("equal digests have no difference") {
  CHECK_FALSE(first_difference(made(), made()));
  CHECK(made().calls() == 3);
  CHECK(made().full());
  CHECK(made({}, 2).calls() == 2);
  CHECK_FALSE(first_difference(made(), made({}, 1)));  // compares the calls that both have
  CHECK_FALSE(first_difference(digest(layers, 2, 0), made()));
  CHECK(digest().full());
}

TEST_CASE("every action is distinguished, by layer, micro-batch and step") {
  for (int l = 0; l < 2; ++l) {
    for (int m = 0; m < 2; ++m)
      for (const action_kind kind :
           {action_kind::forward, action_kind::backward_input, action_kind::backward_parameters}) {
        const location found = difference([&](digest& d) { d.put(kind, m, l, 0); });
        CHECK(found.action == name_of(kind));
        CHECK(found.layer_index == l);
        CHECK(found.layer == layers[static_cast<std::size_t>(l)]);
        CHECK(found.micro_batch == 2 + m);  // counted over the step's two calls
        CHECK(found.step == 5);
      }
    const location found = difference([&](digest& d) { d.put(action_kind::update, -1, l, 0); });
    CHECK(found.action == "update");
    CHECK(found.layer_index == l);
    CHECK(found.micro_batch == -1);
  }
  const location found = difference([](digest& d) { d.put(action_kind::idle, -1, -1, 0); });
  CHECK(found.action == "data");
  CHECK(found.layer_index == -1);
}

TEST_CASE("the first difference is the cause of the others") {
  const auto both = [](action_kind one, int m, int l, action_kind other, int n, int k) {
    return difference([=](digest& d) { d.put(one, m, l, 0), d.put(other, n, k, 0); });
  };
  CHECK(both(action_kind::forward, 0, 1, action_kind::forward, 1, 0).micro_batch == 2);
  CHECK(both(action_kind::forward, 1, 1, action_kind::forward, 1, 0).layer_index == 0);
  CHECK(both(action_kind::backward_input, 0, 1, action_kind::forward, 1, 1).action == "forward");
  CHECK(both(action_kind::backward_parameters, 0, 0, action_kind::backward_input, 0, 1).layer_index == 1);
  CHECK(both(action_kind::update, -1, 0, action_kind::backward_parameters, 1, 0).action == "backward parameters");
}

TEST_CASE("a call that fails is recorded again") {
  digest once(layers, 2, 1), twice(layers, 2, 1);
  twice.open();
  twice.put(action_kind::forward, 1, 1, 5);
  for (digest* d : {&once, &twice}) d->open(), d->put(action_kind::forward, 0, 0, 1), d->close({0, 0});
  CHECK_FALSE(first_difference(once, twice));
  digest other_step(layers, 2, 1);
  other_step.open(), other_step.put(action_kind::forward, 0, 0, 1), other_step.close({1, 0});
  CHECK(first_difference(once, other_step)->action == "call");
}

TEST_CASE("only digests of one model are compared") {
  CHECK_THROWS_WITH_AS(first_difference(made(), digest({"first"}, 2, 1)), doctest::Contains("differ in their layers"),
                       error);
  CHECK_THROWS_AS(first_difference(made(), digest(layers, 3, 1)), error);
}
