// expect: the extents of a model's input must be at least 1
// expect: model_input_has_elements<gpipe::tensor<float, 0>, false>
// expect: the extents of a layer's output must be at least 1
// expect: layer_output_has_elements<gpipe::broken::position<1>, gpipe::linear<0>, gpipe::tensor<float, 8>,
// expect: gpipe::tensor<float, 0>, false>
// expect: an item of the model is a model, whose input would be ignored
// expect: item_is_no_model<
// expect: position<1, block>
// expect: a view .reshape. must keep the number of elements and their type
// expect: view_keeps_size<gpipe::broken::position<1>, gpipe::reshape<7, 9>, .*elements_of_input<64>,
// expect: gpipe::broken::elements_of_output<63>, false>
// expect: a residual's items must return a tensor of their input's type, so that both can be added
// expect: residual_returns_its_input<gpipe::broken::position<3>, gpipe::tensor<float, 8>, gpipe::tensor<float, 9>,
// expect: a stash with several names needs one name for each tensor on the edge
// expect: a stash has no pop of its name after it in its scope
// expect: stash_is_read<gpipe::broken::position<1>, gpipe::stash<
// expect: a pop has no stash of its name before it in its scope, where there are these Stashes
// expect: stashes<gpipe::broken::stash_named<.e., .a., .r., .l., .y.>, gpipe::broken::stash_named<.l., .a., .t., .e.>
// expect: pop_has_a_stash<gpipe::broken::position<3>, gpipe::stash<
// expect: an only<...> leaves a tensor behind that no layer reads
// expect: only_leaves_what_is_stashed<gpipe::broken::position<1>, gpipe::detail::letters<'r', 'e', 'l', 'u'>, false>
// expect: from<.*inputs.*, ...> has the name of the model.s first input
// expect: further_input_has_a_name<gpipe::broken::position<0>,.*gpipe::from<
// expect: a layer has more Inputs or Outputs than gpipe::max_tensors_per_edge
// expect: auxiliary<Name, Factor, Loss> needs a loss
// expect: two losses of a model have one name
// expect: two layers with parameters or state have the same Path: give one of them another name
// expect: paths_differ<gpipe::broken::position<1>, gpipe::broken::position<8>, gpipe::detail::letters<'h', '.', '0'>,
// expect: the Name of a named<...> contains a dot or is a number
// expect: name_is_a_part_of_a_path<gpipe::detail::letters<'h', '.', '0'>, false>
// expect: name_is_a_part_of_a_path<gpipe::detail::letters<'1', '2'>, false>
// errors: 17
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class... Items>
struct net : model<input<float, 8>, Items...> {};
using loss = softmax_cross_entropy;
template <detail::text Name>
using further = from<Name, tensor<float, 2>>;

#ifdef GPIPE_FAIL
struct block : model<input<float, 4>, relu, relu> {};
constexpr int layers[] = {
    layers_of<model<input<float, 0>, relu, linear<3>>>,
    layers_of<net<relu, linear<0>, linear<3>>>,
    layers_of<net<relu, block>>,
    layers_of<model<input<float, 64>, relu, reshape<7, 9>>>,
    layers_of<net<relu, residual<linear<16>, linear<9>>, relu>>,
    layers_of<net<stash<"x">, relu, pop<"x">, stash<"a", "b", "c">, add, pop<"a">, add, pop<"b">, add>>,
    layers_of<net<relu, repeat<3, stash<"x">, relu, relu>>>,
    layers_of<net<stash<"early">, relu, stash<"late">, relu, pop<"erly">, add, pop<"late">, add>>,
    layers_of<net<stash<"y">, residual<stash<"x">, relu, pop<"x">, add>, pop<"x">, add>>,  // a residual is a scope
    layers_of<net<stash<"x">, relu, only<pop<"x">>, relu, relu>>,
    layers_of<net<further<"inputs">, concat<>>>,
    layers_of<net<further<"a">, further<"b">, further<"c">, further<"d">, concat<>>>,
    layers_of<net<auxiliary<"early", 500, relu>, loss>>,
    layers_of<net<auxiliary<"a", 500, loss>, auxiliary<"a", 500, mean_squared_error>, loss>>,
    layers_of<net<relu, named<"h", repeat<7, linear<8>>>, named<"h", linear<4>, loss>>>,
    layers_of<net<relu, named<"h.0", linear<4>>, loss>>,
    layers_of<net<relu, named<"12", linear<4>>, loss>>};
#else
struct block : sequence<relu, relu> {};
constexpr int layers[] = {
    layers_of<model<input<float, 1>, relu, linear<3>>>,
    layers_of<net<relu, linear<1>, linear<3>>>,
    layers_of<net<relu, block>>,
    layers_of<model<input<float, 64>, relu, reshape<8, 8>>>,
    layers_of<net<relu, residual<linear<16>, linear<8>>, relu>>,
    layers_of<net<stash<"x">, relu, pop<"x">, stash<"a", "b">, add, pop<"a">, add, pop<"b">, add>>,
    layers_of<net<relu, repeat<3, stash<"x">, relu, pop<"x">, add, relu>>>,
    layers_of<net<stash<"early">, relu, stash<"late">, relu, pop<"early">, add, pop<"late">, add>>,
    layers_of<net<stash<"y">, residual<stash<"x">, relu, pop<"x">, add>, pop<"y">, add>>,
    layers_of<net<stash<"x">, relu, stash<"y">, only<pop<"x">>, relu, pop<"y">, add, relu>>,
    layers_of<net<further<"more">, concat<>>>,
    layers_of<net<further<"a">, further<"b">, further<"c">, concat<>>>,
    layers_of<net<auxiliary<"early", 500, mean_squared_error>, loss>>,
    layers_of<net<auxiliary<"a", 500, loss>, auxiliary<"b", 500, mean_squared_error>, loss>>,
    layers_of<net<relu, named<"h", repeat<7, linear<8>>>, named<"head", linear<4>, loss>>>,
    layers_of<net<relu, named<"h0", linear<4>>, loss>>};
#endif
