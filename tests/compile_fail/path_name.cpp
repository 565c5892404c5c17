// expect: the Name of a named<...> contains a dot or is a number
// expect: name_is_a_part_of_a_path<gpipe::detail::letters<'h', '.', '0'>, false>
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct head : named<"h.0", linear<4>> {};
#else
struct head : named<"h0", linear<4>> {};
#endif
struct net : model<input<float, 8>, relu, head, softmax_cross_entropy> {};
static_assert(layers_of<net> == 3);
