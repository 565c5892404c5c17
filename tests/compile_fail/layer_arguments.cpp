// expect: gpipe: dropout<P>: P must be a probability
// expect: gpipe: embedding<Vocabulary, Width>: both the number of tokens and the width
// expect: gpipe: group_norm<Groups> has its groups alone
// expect: gpipe: attention_options.+heads. must be at least 1
// expect: gpipe: a window must be at least 1
// errors: 9
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
template <class... Items>
struct images : model<input_image<float, 4, 8, 8>, Items...> {};
template <class Item>
struct rows : model<input<float, 8, 16>, Item> {};
constexpr int layers = layers_of<rows<dropout<>>> + layers_of<model<input<std::int32_t, 8>, embedding<100>>> +
                       layers_of<images<group_norm<2, 4>>> + layers_of<rows<attention<>>> +
                       layers_of<rows<causal_attention<>>> + layers_of<images<conv2d<8>>> + layers_of<rows<conv1d<8>>> +
                       layers_of<images<max_pool<>>> + layers_of<images<average_pool<>>>;
#else
struct images : model<input_image<float, 4, 8, 8>, group_norm<2>, conv2d<8, 3>, max_pool<2>, dropout<0.1>> {};
constexpr int layers = layers_of<images>;
#endif
