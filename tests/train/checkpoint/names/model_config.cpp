#include <gpipe/train/checkpoint/names/model_config.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/tools/names/hugging_face.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

using namespace laws;

namespace {

using net = gpt2<2, 8, 2, 4, 9>;
template <class... Function>
struct of_function
    : model<input<float, 8>, layer_norm, feed_forward<16, Function...>, linear<8>, softmax_cross_entropy> {};
struct with_relu : model<input<float, 8>, linear<8>, relu, softmax_cross_entropy> {};
struct with_dropout : model<input<float, 8>, linear<8>, dropout<10>, softmax_cross_entropy> {};

/// The error of a load of these settings, without what follows the first semicolon.
std::string refusal(const network& of, const std::string& config) {
  const temporary_folder folder;
  std::filesystem::create_directory(folder.path());
  temporary_folder::write_file(folder.path() + "/config.json", config);
  try {
    gpipe::detail::require_config(of, folder.path(), gpipe::detail::system_files());
  } catch (const error& found) {
    CHECK(found.where().file == folder.path() + "/config.json");
    return found.wrong();
  }
  return "";
}
std::string refusal(const network& of, const std::string& name, const std::string& value) {
  return refusal(of, R"({"n_head": 2, "n_inner": null, "architectures": ["GPT2LMHeadModel"], ")" + name +
                         "\": " + value + R"(, "model_type": "gpt2"})");
}

}  // namespace

TEST_CASE("settings that are the model's pass") {
  const network& of = network_of<net>;
  for (const auto& [name, value] : {std::pair{"n_ctx", "4"},
                                    {"activation_function", "\"gelu_new\""},
                                    {"activation_function", "\"gelu_pytorch_tanh\""},
                                    {"layer_norm_epsilon", "1e-05"},
                                    {"layer_norm_epsilon", "0.00001"},
                                    {"scale_attn_weights", "true"},
                                    {"scale_attn_by_inverse_layer_idx", "false"},
                                    {"n_layer", "77"}})  // the arrays show it
    CHECK(refusal(of, name, value) == "");
  CHECK(refusal(network_of<of_function<relu>>, "activation_function", "\"relu\"") == "");
  CHECK(refusal(network_of<of_function<silu>>, "activation_function", "\"swish\"") == "");
  CHECK(refusal(network_of<with_dropout>, "activation_function", "\"tanh\"") == "");
}

TEST_CASE("each setting that computes something else is refused, with both values") {
  const network& of = network_of<net>;
  CHECK(refusal(of, "n_head", "4") == "n_head is 4, but the model has 2");
  CHECK(refusal(of, "n_head", "null") == "n_head is null, but the model has 2");
  CHECK(refusal(of, R"({"model_type": "gpt2"})") == "n_head is 12, but the model has 2");
  CHECK(refusal(of, "activation_function", "\"relu\"")
            .starts_with("activation_function is \"relu\", but the model has \"gelu_new\""));
  CHECK(refusal(of, "activation_function", "\"gelu\"").starts_with("activation_function is \"gelu\", but"));
  CHECK(refusal(network_of<of_function<relu>>, "n_ctx", "4") ==
        "activation_function is \"gelu_new\", but the model has \"relu\"");
  CHECK(refusal(network_of<with_relu>, "n_ctx", "4") ==
        "activation_function is \"gelu_new\", but the model has \"relu\"");
  CHECK(refusal(of, "layer_norm_epsilon", "0.1") == "layer_norm_epsilon is 0.1, but the model has 1e-5");
  CHECK(refusal(of, "layer_norm_epsilon", "1e-6") == "layer_norm_epsilon is 1e-6, but the model has 1e-5");
  CHECK(refusal(of, "scale_attn_weights", "false") ==
        "scale_attn_weights is false, but the model has 1 / sqrt(width of a head)");
  CHECK(refusal(of, "scale_attn_by_inverse_layer_idx", "true").starts_with("scale_attn_by_inverse_layer_idx is true"));
}

TEST_CASE("a config of another model says nothing, and one that is no JSON is an error") {
  CHECK(refusal(network_of<net>, R"({"n_head": 4, "model_type": "bert"})") == "");
  CHECK(refusal(network_of<net>, R"({"n_head": 4})") == "");
  CHECK(refusal(network_of<net>, "{\"n_head\": 4,").starts_with("the config, byte 13"));
  CHECK(refusal(network_of<net>, std::string((1 << 20) + 1, ' ')) ==
        "the config has 1048577 bytes, but at most 1048576 are read");
}

TEST_CASE("a load of a folder, of its file and of its index reads the config") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder.path());
  trainer<net, sgd> one{{.stages = 2, .micro_batch_size = 4}, sgd{}, {.seed = 3}},
      other{{.stages = 1, .micro_batch_size = 4}, sgd{}, {.seed = 4}};
  const load_options how{.names = hugging_face_gpt2()};
  const std::string file = folder.path() + "/model.safetensors", config = folder.path() + "/config.json";
  one.save(file, {.names = how.names});
  temporary_folder::write_file(config, R"({"model_type": "gpt2", "n_head": 4})");
  const std::uint64_t before = state_of(other);
  for (const std::string& path : {folder.path(), file}) {
    CHECK_THROWS_WITH_AS(other.load(path, how), doctest::Contains("n_head is 4, but the model has 2"), error);
    CHECK(state_of(other) == before);
  }
  CHECK(other.load(file, {.mode = load_mode::partial, .names = how.names}).missing.empty());
  temporary_folder::write_file(config, R"({"model_type": "gpt2", "n_head": 2})");
  other.load(folder.path(), how);
  CHECK(other.parameter_hash() == one.parameter_hash());
}
