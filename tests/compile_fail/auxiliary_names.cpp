// expect: two losses of a model have one name
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, auxiliary<"a", 500, softmax_cross_entropy>,
                   auxiliary<"a", 500, mean_squared_error>, softmax_cross_entropy> {};
#else
struct net : model<input<float, 10>, auxiliary<"a", 500, softmax_cross_entropy>,
                   auxiliary<"b", 500, mean_squared_error>, softmax_cross_entropy> {};
#endif
constexpr int layers = layers_of<net>;
