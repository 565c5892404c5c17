#include <gpipe/plan/schedule/contract/action.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(is_send(action_kind::send_activation) && is_send(action_kind::send_gradient) &&
              !is_send(action_kind::receive_gradient));
static_assert(is_receive(action_kind::receive_activation) && is_receive(action_kind::receive_gradient) &&
              !is_receive(action_kind::forward));
static_assert(instruction{} == instruction{action_kind::idle, -1, -1, -1});

TEST_CASE("every action has a distinct name") {
  CHECK(std::string(name_of(action_kind::idle)) == "idle");
  CHECK(std::string(name_of(action_kind::backward_input)) == "backward input");
  CHECK(std::string(name_of(action_kind::receive_gradient)) == "receive gradient");
  CHECK(std::string(name_of(action_kind::update)) == "update");
  for (int a = 0; a <= static_cast<int>(action_kind::update); ++a)
    for (int b = 0; b < a; ++b)
      CHECK(std::string(name_of(static_cast<action_kind>(a))) != std::string(name_of(static_cast<action_kind>(b))));
}
