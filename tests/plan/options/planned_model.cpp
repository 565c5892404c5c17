#include <gpipe/plan/options/planned_model.hpp>

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>

using namespace gpipe;

namespace {
struct net : model<input<float, 4>, relu> {};
}

// What is wrong with a model has its error in tests/compile_fail.
static_assert(std::is_same_v<decltype(detail::planned_model<net>())::type, net>);
static_assert(!decltype(detail::planned_model<net>())::mistaken);
