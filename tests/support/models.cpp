#include "support/models.hpp"

#include "support/attended.hpp"
#include "support/imaged.hpp"
#include "support/model_of.hpp"
#include "support/nets.hpp"

namespace laws {

namespace {

struct shared : model<input<float, 12>, gpipe::tied<"w", linear<12>>, gelu, gpipe::tied<"w", linear<12>>, linear<7>,
                      softmax_cross_entropy> {};
struct untied : model<input<float, 12>, linear<12>, gelu, linear<12>, linear<7>, softmax_cross_entropy> {};
struct residuals : model<input<float, 12>, linear<8>, gpipe::residual<layer_norm, linear<8>, gelu>, linear<7>,
                         softmax_cross_entropy> {};
struct skips : model<input<float, 12>, linear<8>, stash<"x">, layer_norm, linear<8>, gelu, pop<"x">, add, linear<7>,
                     softmax_cross_entropy> {};

struct channels : model<input<float, 12>, linear<24>, reshape<6, 4>, batch_norm<>, dropout<25>, gelu, linear<3>,
                        batch_norm<>, reshape<18>, linear<7>, softmax_cross_entropy> {};

struct many_rows : model<input<float, 12>, linear<2048>, reshape<512, 4>, linear<32>, gelu, reshape<16384>, linear<7>,
                         softmax_cross_entropy> {};

struct equals : model<input<float, 512>, repeat<8, linear<512, no_bias>>, softmax_cross_entropy> {};

struct rows_of_tokens {
  static const token_samples<float>& all() {
    static const token_samples<float> made(64);
    return made;
  }
};

}  // namespace

namespace models {

constinit const test_model residual =
    model_of<residual_net<float>, numbers<float, 1>, adam, sgd, adafactor_with_momentum>();
constinit const test_model residual_double =
    model_of<residual_net<double>, numbers<double, 1>, sgd, adafactor_with_momentum>();
constinit const test_model residual_bf16 = model_of<residual_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model skip = model_of<skip_net<float>, numbers<float, 2>, adam>();
constinit const test_model skip_double = model_of<skip_net<double>, numbers<double, 2>, adam>();
constinit const test_model skip_bf16 = model_of<skip_net<bf16>, numbers<float, 2>, adam>();
constinit const test_model pair_double = model_of<pair_net<double>, numbers<double, 1>, adam>();
constinit const test_model pair_bf16 = model_of<pair_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model integer = model_of<integer_net<float>, tokens<1>, adam>();
constinit const test_model tied = model_of<tied_net<float>, numbers<float, 1>, sgd, adam, adamw, rmsprop, rmsprop_tf,
                                           lion, adafactor, adafactor_with_momentum, row_signs>();
constinit const test_model tied_bf16 = model_of<tied_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model headed = model_of<headed_net<float>, tokens<3>, adam>();
constinit const test_model sliced = model_of<sliced_net<float>, tokens<3>, adam, adafactor>();
constinit const test_model sliced_bf16 = model_of<sliced_net<bf16>, tokens<3>, adam>();
constinit const test_model rows = model_of<rows_net<float>, tokens<3>, adam>();
constinit const test_model rows_bf16 = model_of<rows_net<bf16>, tokens<3>, adam>();
constinit const test_model losses = model_of<losses_net<float>, numbers<float, 1>, adam>();
constinit const test_model losses_bf16 = model_of<losses_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model broad = model_of<broad_net<float>, numbers<float, 1>, adam>();
constinit const test_model attended = model_of<attended_net<float>, rows_of_tokens, adam>();
constinit const test_model attended_bf16 = model_of<attended_net<bf16>, rows_of_tokens, adam>();
constinit const test_model image = model_of<image_net<float>, numbers<float, 1>, adam>();
constinit const test_model image_double = model_of<image_net<double>, numbers<double, 1>, adam>();

constinit const test_model shared_layer = model_of<shared, numbers<float, 1>, sgd>();
constinit const test_model two_layers = model_of<untied, numbers<float, 1>, sgd>();
constinit const test_model written_residual = model_of<residuals, numbers<float, 1>, adam>();
constinit const test_model written_skip = model_of<skips, numbers<float, 1>, adam>();
constinit const test_model long_rows = model_of<many_rows, numbers<float, 1>, adam>();
constinit const test_model equal_layers = model_of<equals, numbers<float, 1, 512>, adam>();
constinit const test_model digits = model_of<digits_net, numbers<float, 1, 64>, adam>();
constinit const test_model broad_image = model_of<broad_image_net<float>, numbers<float, 1, 64>, adam>();
constinit const test_model token = model_of<token_net<float>, tokens<1>, adam>();
constinit const test_model batch_norms = model_of<channels, numbers<float, 1>, adam>();

}  // namespace models
}  // namespace laws
