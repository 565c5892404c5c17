#include <gpipe/plan/schedule/action.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

static_assert(is_send(act::send_activation) && is_send(act::send_gradient) && !is_send(act::receive_gradient));
static_assert(is_receive(act::receive_activation) && is_receive(act::receive_gradient) && !is_receive(act::forward));
static_assert(instruction{} == instruction{act::idle, -1, -1, -1});

TEST_CASE("every action has its own name") {
  CHECK(std::string(name(act::idle)) == "idle");
  CHECK(std::string(name(act::backward_input)) == "backward input");
  CHECK(std::string(name(act::receive_gradient)) == "receive gradient");
  CHECK(std::string(name(act::update)) == "update");
  for (int a = 0; a <= static_cast<int>(act::update); ++a)
    for (int b = 0; b < a; ++b)
      CHECK(std::string(name(static_cast<act>(a))) != std::string(name(static_cast<act>(b))));
}
