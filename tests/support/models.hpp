#pragma once

// The networks of nets.hpp, attended.hpp and imaged.hpp with data and trainers, compiled once, in the library
// tests.models. A test that trains them through this header compiles no kernel, network or trainer.

#include <cstdint>
#include <memory>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/runtime/step/batch.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace laws {

using namespace gpipe;

// change: an optimizer
enum class rule : std::uint8_t {
  sgd,
  adam,
  adamw,
  rmsprop,
  rmsprop_tf,
  lion,
  adafactor,
  adafactor_with_momentum,
  row_signs  ///< a tensor rule of a user's own
};
inline constexpr int rules = 9;
inline constexpr const char* rule_names[rules] = {
    "sgd", "adam", "adamw", "rmsprop", "rmsprop_tf", "lion", "adafactor", "adafactor_with_momentum", "row_signs"};

/// A network, its data, and its trainers.
struct test_model {
  const network& net;
  /// The samples [first, first + count), of 64, and the first `count` of them without labels.
  batch (*take)(int first, int count);
  dataset (*inputs)(int count);
  using maker = std::shared_ptr<basic_trainer> (*)(const plan_options&, double rate, const training_options&);
  maker makers[rules];  ///< null: the test needs no such trainer

  int layers() const { return net.layer_count; }
  /// With the optimizer's own learning rate if `rate` is negative.
  std::shared_ptr<basic_trainer> trainer(const plan_options& plan, const training_options& how = {},
                                         rule optimizer = rule::adam, double rate = -1) const {
    return makers[static_cast<int>(optimizer)](plan, rate, how);
  }
};

namespace models {

extern const test_model residual, residual_double, residual_bf16, skip, skip_double, skip_bf16, pair_double, pair_bf16,
    integer, tied, tied_bf16, headed, sliced, sliced_bf16, losses, losses_bf16, broad, attended, attended_bf16, image,
    image_double, broad_image, token, rows, rows_bf16;

/// Small networks in pairs that compute the same: a layer of two users, and two layers; a residual, and a skip.
extern const test_model shared_layer, two_layers, written_residual, written_skip;
/// Channels of several numbers, so that a micro-batch of one sample has a variance.
extern const test_model batch_norms;
/// A linear layer of 2,048 rows in a micro-batch of four samples, which packs on the way by default, between two with
/// few rows.
extern const test_model long_rows;
/// Eight layers of a MiB each; its samples have 512 inputs.
extern const test_model equal_layers;
/// The network of examples/digits.cpp.
extern const test_model digits;

}  // namespace models
}  // namespace laws
