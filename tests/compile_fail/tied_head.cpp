// expect: a tied layer's parameters must have the shapes and types of the first layer tied under that name
// expect: tied_parameters_match<gpipe::broken::position<1>, gpipe::detail::letters<'w', 't', 'e'>, false>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

// A head shares the embedding's weight if it has no bias.
#ifdef GPIPE_FAIL
using head = token_head<9>;
#else
using head = token_head<9, no_bias>;
#endif
struct net : model<input<std::int32_t, 4>, tied<"wte", embedding<9, 8>>, tied<"wte", head>> {};
static_assert(slots_of<net> == 2);
