// expect: layers tied under one name share the parameters of the same name, but this one has another shape or type here
// expect: tied_parameters_match<gpipe::broken::position<1>, gpipe::detail::letters<'w', 't', 'e'>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't'>, gpipe::broken::here<gpipe::tensor<float, 10, 8>
// expect: gpipe::broken::first<gpipe::tensor<float, 9, 8>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

// A head shares the weight of an embedding of as many words, and has a bias of its own.
#ifdef GPIPE_FAIL
constexpr int words = 10;
#else
constexpr int words = 9;
#endif
struct net : model<input<std::int32_t, 4>, tied<"wte", embedding<9, 8>>, tied<"wte", token_head<words>>> {};
static_assert(layers_of<net> == 2);
