// optimize: yes

#include <gpipe/train/checkpoint/names/stored_array.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/train/checkpoint/names/map_names.hpp>

#include "support/temporary_folder.hpp"

// PyTorch's order of elements in files: of every layer that ships, there and back, with extents that are equal in both
// orders.

using namespace gpipe;
using gpipe::detail::stored_array;

namespace {

/// Convolutions whose weights are {3, 3, 3, 3} in both orders; then a flattened map of 3 channels and 4 pixels, as
/// nn.Sequential(Conv2d(3, 3, 3), ReLU(), ConvTranspose2d(3, 3, 3), BatchNorm2d(3), MaxPool2d(2), Flatten(),
/// BatchNorm1d(12), ReLU(), Linear(12, 12), ReLU(), Unflatten(1, (3, 2, 2)), Conv2d(3, 5, (1, 2)), AvgPool..., Linear)
/// has them.
struct square : model<input_image<float, 3, 4, 4>, conv2d<3, 3>, relu, conv_transpose2d<3, 3>, batch_norm<>,
                      max_pool<2>, flatten, batch_norm<>, relu, linear<12>, relu, as_feature_map<3, 2, 2>,
                      conv2d<5, height_width{1, 2}>, global_average_pool, linear<7>, softmax_cross_entropy> {};
/// Nothing but one ambiguous weight.
struct one_convolution : model<input_image<float, 3, 3, 3>, conv2d<3, 3>, flatten, softmax_cross_entropy> {};
struct flattened : model<input_image<float, 3, 2, 2>, flatten, linear<5>, softmax_cross_entropy> {};
/// A file's shapes show its order, though that of the second layer's weight does not.
struct plain : model<input_image<float, 3, 4, 4>, conv2d<4, 3>, flatten, linear<16>, softmax_cross_entropy> {};

/// Sequences of 3 channels, flattened by channels as PyTorch's: nn.Sequential(Conv1d(3, 3, 3), Conv1d(3, 5, 2),
/// Flatten(), Linear(10, 5)).
struct sequences
    : model<input_image<float, 3, 1, 5>, conv1d<3, 3>, conv1d<5, 2>, flatten, linear<5>, softmax_cross_entropy> {};

constexpr plan_options one{.stages = 1, .micro_batch_size = 1};
template <class Net>
using training = trainer<Net, sgd>;

/// The element of PyTorch's tensor at these positions is this one of our array.
using to_ours = std::function<std::size_t(const std::array<std::size_t, 4>&)>;

std::vector<float> tensor_of(const safetensors_file& file, const std::string& name) {
  std::vector<float> all(file.at(name).elements());
  file.read(file.at(name), 0, std::span(all));
  return all;
}

/// Every element of the file is that of the training, by the formula; the file has these extents.
template <class Training>
void has(const safetensors_file& file, const Training& of, const std::string& name,
         const std::vector<std::uint64_t>& extents, const to_ours& at, bool state = false) {
  CAPTURE(name);
  REQUIRE(file.at(name).shape == extents);
  const std::vector<float> found = tensor_of(file, name),
                           ours = state ? of.template state<float>(name) : of.template parameter<float>(name);
  REQUIRE(found.size() == ours.size());
  std::vector<std::uint64_t> n(4, 1);
  std::copy(extents.begin(), extents.end(), n.begin());
  std::size_t next = 0, same = 0;
  std::array<std::size_t, 4> i{};
  for (i[0] = 0; i[0] < n[0]; ++i[0])
    for (i[1] = 0; i[1] < n[1]; ++i[1])
      for (i[2] = 0; i[2] < n[2]; ++i[2])
        for (i[3] = 0; i[3] < n[3]; ++i[3]) same += found[next++] == ours[at(i)] ? 1 : 0;
  CHECK(same == found.size());
}

/// Gives every array other values in every element.
template <class Training>
void number(Training& of) {
  float next = 1;
  for (auto& array : of.parameters()) {
    std::vector<float> values(array.size());
    for (float& x : values) x = next++;
    array.set(values);
  }
}
template <class Training>
std::vector<std::vector<float>> values_of(Training& of) {
  std::vector<std::vector<float>> all;
  for (auto& array : of.parameters()) all.push_back(array.values());
  return all;
}

/// The file again with other metadata.
void rewrite(const std::string& from, const std::string& to, const safetensors_metadata& metadata) {
  const safetensors_file file(from);
  std::vector<safetensors_tensor> tensors;
  for (const safetensors_entry& e : file.entries()) tensors.push_back({e.name, e.type, e.shape});
  write_safetensors(to, tensors, metadata, [&](const safetensors_entry& e, safetensors_sink& into) {
    into.write(std::span<const float>(tensor_of(file, e.name)));
  });
}

template <class Net>
void loads(const std::string& file, const load_options& how, const std::vector<std::vector<float>>& want) {
  CAPTURE(file);
  training<Net> other(one, sgd{}, {.seed = 9});
  other.load(file, how);
  CHECK(values_of(other) == want);
}
template <class Net>
void refuses(const std::string& file, const char* what) {
  CAPTURE(file);
  training<Net> other(one, sgd{}, {.seed = 9});
  const auto before = values_of(other);
  CHECK_THROWS_WITH_AS(other.load(file), doctest::Contains(what), error);
  CHECK(values_of(other) == before);
}

}  // namespace

TEST_CASE("a file has PyTorch's order of elements, of convolutions and around flattened maps") {
  training<square> of(one);
  number(of);
  const temporary_folder folder;
  const std::string path = folder.beside("torch.safetensors");
  of.save(path);
  const safetensors_file file(path);
  CHECK(file.metadata() == safetensors_metadata{{"format", "pt"}, {"gpipe.layout", "pytorch"}});
  // {out, in, height, width}; of the transpose {in, out, height, width}
  const to_ours window = [](const auto& i) { return ((i[2] * 3 + i[3]) * 3 + i[1]) * 3 + i[0]; };
  has(file, of, "0.weight", {3, 3, 3, 3}, window);
  has(file, of, "2.weight", {3, 3, 3, 3}, window);
  has(file, of, "11.weight", {5, 3, 1, 2}, [](const auto& i) { return (i[3] * 3 + i[1]) * 5 + i[0]; });
  // {channel, pixel} for {pixel, channel}
  const auto flat = [](std::size_t i) { return i % 4 * 3 + i / 4; };
  const to_ours vector = [&](const auto&i) { return flat(i[0]); }, same = [](const auto&i) { return i[0]; };
  has(file, of, "6.weight", {12}, vector);
  has(file, of, "6.bias", {12}, vector);
  has(file, of, "6.running_mean", {12}, vector, true);
  has(file, of, "6.running_var", {12}, vector, true);
  has(file, of, "8.weight", {12, 12}, [&](const auto& i) { return flat(i[0]) * 12 + flat(i[1]); });
  has(file, of, "8.bias", {12}, vector);
  for (const char* name : {"0.bias", "2.bias", "3.weight", "3.bias"}) has(file, of, name, {3}, same);
  has(file, of, "13.weight", {7, 5}, [](const auto& i) { return i[0] * 5 + i[1]; });
}

TEST_CASE("a file has PyTorch's order of convolutions along a sequence") {
  training<sequences> of(one);
  number(of);
  const temporary_folder folder;
  const std::string path = folder.beside("torch.safetensors");
  of.save(path);
  const safetensors_file file(path);
  has(file, of, "0.weight", {3, 3, 3}, [](const auto& i) { return (i[2] * 3 + i[1]) * 3 + i[0]; });
  has(file, of, "1.weight", {5, 3, 2}, [](const auto& i) { return (i[2] * 3 + i[1]) * 5 + i[0]; });
  has(file, of, "3.weight", {5, 10}, [](const auto& i) { return i[0] * 10 + i[1] % 2 * 5 + i[1] / 2; });
}

TEST_CASE("files in both orders and checkpoints come back, and a file that does not say its order is refused") {
  const temporary_folder folder;
  const std::string torch = folder.beside("torch.safetensors"), ours = folder.beside("ours.safetensors"),
                    bare = folder.beside("bare.safetensors");
  const auto comes_back = [&]<class Net>(training<Net>& of, const char* array, bool shows) {
    number(of);
    const auto want = values_of(of);
    for (const file_layout layout : {file_layout::automatic, file_layout::pytorch, file_layout::gpipe}) {
      CAPTURE(static_cast<int>(layout));
      const std::string text = layout == file_layout::gpipe ? "gpipe" : "pytorch", path = folder.beside(text + ".st");
      of.save(folder.beside(text), {.layout = layout});
      loads<Net>(folder.beside(text), {}, want);
      of.save(torch, {.layout = layout});
      CHECK(safetensors_file(torch).metadata().at("gpipe.layout") == text);
      loads<Net>(torch, {}, want);
      // So PyTorch, or an older gpipe, writes it.
      rewrite(torch, bare, {{"format", "pt"}});
      loads<Net>(bare, {.layout = layout == file_layout::automatic ? file_layout::pytorch : layout}, want);
      if (shows) loads<Net>(bare, {}, want);
      else
        refuses<Net>(bare, ("the file does not say in which order it has the elements of \"" + std::string(array) +
                            "\", and PyTorch's shapes are ours; give load_options{.layout = file_layout::pytorch}")
                               .c_str());
    }
    // A checkpoint of format 1 has our order, and no text of it.
    of.save(ours, {.layout = file_layout::gpipe});
    rewrite(ours, bare, {{"format", "pt"}, {"gpipe.steps", "0"}});
    loads<Net>(bare, {}, want);
    rewrite(ours, bare, {{"gpipe.layout", "upside down"}});
    refuses<Net>(bare, "the file's gpipe.layout is \"upside down\", which is none");
  };
  training<square> first(one);
  comes_back(first, "0.weight", true);  // 11.weight shows it
  training<one_convolution> second(one);
  comes_back(second, "0.weight", false);
  training<flattened> third(one);
  comes_back(third, "1.weight", false);
  training<plain> fourth(one);
  comes_back(fourth, "2.weight", true);
  training<sequences> fifth(one);
  comes_back(fifth, "0.weight", true);  // 1.weight shows it
}

TEST_CASE("names that do not fit are reported before an order that the file does not say") {
  struct two_convolutions
      : model<input_image<float, 3, 5, 5>, conv2d<3, 3>, conv2d<3, 3>, flatten, softmax_cross_entropy> {};
  training<two_convolutions> of(one);
  const temporary_folder folder;
  const std::string path = folder.beside("named.safetensors"), bare = folder.beside("bare.safetensors");
  const name_map names{.rules = {{.file = {"second.weight"}, .model = "1.weight"}}};
  of.save(path, {.names = names});
  rewrite(path, bare, {});
  refuses<two_convolutions>(bare, "the file does not fit the model: 1 missing: 1.weight; 1 unexpected: second.weight");
  training<two_convolutions> other(one, sgd{}, {.seed = 9});
  CHECK_THROWS_WITH_AS(other.load(bare, {.names = names}), doctest::Contains("does not say in which order"), error);
  CHECK_THROWS_WITH_AS(other.load(bare, load_mode::partial), doctest::Contains("does not say in which order"), error);
}

TEST_CASE("PyTorch's batch norm shows that a file is PyTorch's") {
  struct normed : model<input_image<float, 3, 3, 3>, conv2d<3, 3>, batch_norm<>, flatten, softmax_cross_entropy> {};
  training<normed> of(one);
  number(of);
  const temporary_folder folder;
  const std::string path = folder.beside("torch.safetensors"), other = folder.beside("other.safetensors");
  of.save(path);
  const safetensors_file file(path);
  std::vector<safetensors_tensor> tensors{{"1.num_batches_tracked", safetensors_type::F32, {}}};
  for (const safetensors_entry& e : file.entries()) tensors.push_back({e.name, e.type, e.shape});
  write_safetensors(other, tensors, {}, [&](const safetensors_entry& e, safetensors_sink& into) {
    const std::vector<float> none(1);
    into.write(std::span<const float>(e.name.ends_with("tracked") ? none : tensor_of(file, e.name)));
  });
  loads<normed>(other, {}, values_of(of));
}

TEST_CASE("a rule of names may rename a weight, and say its order for itself") {
  training<one_convolution> of(one);
  number(of);
  const auto want = values_of(of);
  const temporary_folder folder;
  const std::string path = folder.beside("named.safetensors"), bare = folder.beside("bare.safetensors");
  for (const bool transposed : {false, true}) {
    const name_map names{.rules = {{.file = {"conv.weight"}, .model = "0.weight", .transposed = transposed}}};
    for (const file_layout layout : {file_layout::pytorch, file_layout::gpipe}) {
      of.save(path, {.names = names, .layout = layout});
      loads<one_convolution>(path, {.names = names}, want);
      rewrite(path, bare, {});
      loads<one_convolution>(bare, {.names = names, .layout = layout}, want);
      if (transposed) loads<one_convolution>(bare, {.names = names}, want);
    }
  }
  CHECK(!safetensors_file(path).metadata().contains("gpipe.layout"));  // the rule says it
}

TEST_CASE("all other layers have the order of PyTorch in memory") {
  struct vectors : model<input<float, 8>, linear<8>, gelu, bias, batch_norm<>, layer_norm, rms_norm,
                         residual<feed_forward<8>>, residual<gated_feed_forward<8>>, linear<8>, softmax_cross_entropy> {
  };
  struct tokens
      : model<input<std::int32_t, 8>, embedding<8, 8>, learned_positions<8>, residual<layer_norm, causal_attention<2>>,
              residual<rms_norm, feed_forward<8>>, layer_norm, token_head<8>> {};
  struct images : model<input_image<float, 8, 4, 4>, batch_norm<>, relu, instance_norm<>, group_norm<2>, max_pool<2>,
                        as_pixels, linear<8>, layer_norm, softmax_cross_entropy> {};
  for (const network* net :
       {&network_of<vectors>, &network_of<tokens>, &network_of<images>, &network_of<gpt2<2, 8, 2, 8, 8>>}) {
    const auto arrays = gpipe::detail::model_arrays(*net);
    CHECK(!arrays.empty());
    for (const stored_array& array : gpipe::detail::in_file(arrays, {}, "")) {
      CAPTURE(array.name);
      CHECK(array.order.same());
      CHECK(array.same_in_torch());
    }
    CHECK(gpipe::detail::layout_text(arrays, {}, file_layout::automatic) == "");
  }
}
