#include <gpipe/tools/names/hugging_face.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/train/checkpoint/names/map_names.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

using namespace laws;
using gpipe::detail::stored_array;

namespace {

struct gpt2 : model<input<std::int32_t, 6>, named<"wte", embedding<9, 4>>,
                    named<"h", repeat<2, residual<named<"ln_1", layer_norm>, named<"attn", causal_attention<2>>>,
                                      residual<named<"ln_2", layer_norm>, named<"mlp", feed_forward<16>>>>>,
                    named<"ln_f", layer_norm>, named<"lm_head", token_head<9>>> {};

/// GPT-2 without attention, on vectors. Its first and its last layer are tied.
struct small
    : model<input<float, 12>, named<"wte", tied<"w", linear<12>>>,
            named<"h", repeat<2, residual<named<"ln_2", layer_norm>,
                                          named<"mlp", named<"c_fc", linear<24>>, gelu, named<"c_proj", linear<12>>>>>>,
            named<"lm_head", tied<"w", linear<12>>>, softmax_cross_entropy> {};
constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 4};

using tensors = std::map<std::string, std::vector<std::uint64_t>>;

/// The value of an element of a tensor, another one for each.
float value(const std::string& name, std::size_t i) {
  gpipe::detail::hash sum;
  sum.add(reinterpret_cast<const std::byte*>(name.data()), name.size());
  return static_cast<float>(sum.value() % 1000 * 1000 + i);
}

/// What transformers writes for `small`: linear layers of blocks are {inputs, outputs}.
tensors foreign(const std::string& prefix) {
  tensors all{{"wte.weight", {12, 12}}, {"wte.bias", {12}}};
  for (const char* block : {"h.0.", "h.1."})
    for (const auto& [name, shape] : tensors{{"ln_2.weight", {12}},
                                             {"ln_2.bias", {12}},
                                             {"mlp.c_fc.weight", {12, 24}},
                                             {"mlp.c_fc.bias", {24}},
                                             {"mlp.c_proj.weight", {24, 12}},
                                             {"mlp.c_proj.bias", {12}}})
      all[block + name] = shape;
  tensors prefixed;
  for (const auto& [name, shape] : all) prefixed[prefix + name] = shape;
  return prefixed;
}

/// A file with these tensors, whose values are those of their names behind the prefix.
void write(const std::string& path, const tensors& all, std::string_view prefix = "") {
  std::vector<safetensors_tensor> list;
  for (const auto& [name, shape] : all) list.push_back({name, safetensors_type::F32, shape});
  write_safetensors(path, list, {{"format", "pt"}}, [&](const safetensors_entry& e, safetensors_sink& into) {
    std::vector<float> values(e.elements());
    const std::string name = e.name.starts_with(prefix) ? e.name.substr(prefix.size()) : e.name;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = value(name == "lm_head.weight" ? "wte.weight" : name, i);
    into.write(std::span<const float>(values));
  });
}

struct fixture {
  temporary_folder folder{};
  trainer<small, adam> training{two, adam{}, {.seed = 3}};
  std::string file = folder.beside("foreign.safetensors");

  void refuses(const name_map& names, const char* what) {
    const std::uint64_t before = state_of(training);
    CHECK_THROWS_WITH_AS(training.load(file, {.names = names}), doctest::Contains(what), error);
    CHECK(state_of(training) == before);
  }
};

}  // namespace

TEST_CASE("the arrays of GPT-2 have the names and layouts of Hugging Face's file") {
  const auto in_file = gpipe::detail::in_file(gpipe::detail::model_arrays(network_of<gpt2>), hugging_face_gpt2(), "p.");
  std::string text;
  for (const stored_array& one : in_file) {
    if (one.name.find(".1.") != one.name.npos) continue;
    text += one.name;
    for (int d = 0; d < one.extents.rank; ++d) text += (d > 0 ? "x" : " ") + std::to_string(one.extents.extents[d]);
    text += one.order.same() ? "\n" : " t\n";
  }
  CHECK(text ==
        "p.wte.weight 9x4\n"
        "p.h.0.ln_1.weight 4\np.h.0.ln_1.bias 4\n"
        "p.h.0.attn.c_attn.weight 4x12 t\np.h.0.attn.c_attn.bias 12\n"
        "p.h.0.attn.c_proj.weight 4x4 t\np.h.0.attn.c_proj.bias 4\n"
        "p.h.0.ln_2.weight 4\np.h.0.ln_2.bias 4\n"
        "p.h.0.mlp.c_fc.weight 4x16 t\np.h.0.mlp.c_fc.bias 16\n"
        "p.h.0.mlp.c_proj.weight 16x4 t\np.h.0.mlp.c_proj.bias 4\n"
        "p.ln_f.weight 4\np.ln_f.bias 4\n"
        "lm_head.weight 9x4\nlm_head.bias 9\n");
}

TEST_CASE_FIXTURE(fixture, "a file with foreign names and layouts is loaded, and written again byte for byte") {
  for (const std::string prefix : {"", "transformer."}) {
    CAPTURE(prefix);
    write(file, foreign(prefix), prefix);
    CHECK(training.load(file, {.names = hugging_face_gpt2()}).loaded.size() == 14);
    const auto weight = training.parameter("h.1.mlp.c_fc.weight"), bias = training.parameter("h.1.mlp.c_fc.bias");
    bool same = weight.size() == 24 * 12;
    for (std::size_t out = 0; same && out < 24; ++out) {
      same = bias[out] == value("h.1.mlp.c_fc.bias", out);
      for (std::size_t in = 0; same && in < 12; ++in)
        same = weight[out * 12 + in] == value("h.1.mlp.c_fc.weight", in * 24 + out);
    }
    CHECK(same);
    CHECK(training.parameter("wte.weight")[5] == value("wte.weight", 5));  // its layout is the model's

    training.save(folder.beside("again.safetensors"), {.names = hugging_face_gpt2(prefix)});
    CHECK(temporary_folder::read_file(folder.beside("again.safetensors")) == temporary_folder::read_file(file));
  }
}

TEST_CASE_FIXTURE(fixture, "masks and the head's second name may be in the file, and no other names") {
  tensors more = foreign("transformer.");
  more["transformer.h.0.attn.bias"] = {1, 1, 6, 6};
  more["transformer.h.1.attn.masked_bias"] = {};
  more["lm_head.weight"] = {12, 12};
  write(file, more, "transformer.");
  const load_result found = training.load(file, {.names = hugging_face_gpt2()});
  CHECK(found.loaded.size() == 15);
  CHECK(found.missing.empty());
  CHECK(found.unexpected.empty());
  more.erase("transformer.h.1.mlp.c_proj.weight");
  more["transformer.h.2.attn.weight"] = {2};
  more["transformer.h.0.mlp.c_fc.weight"] = {24, 12};
  write(file, more, "transformer.");
  refuses(hugging_face_gpt2(),
          "1 missing: transformer.h.1.mlp.c_proj.weight; 1 unexpected: transformer.h.2.attn.weight; 1 misshaped: "
          "transformer.h.0.mlp.c_fc.weight (file 24 x 12, model 12 x 24)");
  const load_result part = training.load(file, {.mode = load_mode::partial, .names = hugging_face_gpt2()});
  CHECK(part.loaded.size() == 13);
  CHECK(part.missing == std::vector<std::string>{"transformer.h.1.mlp.c_proj.weight"});
}

TEST_CASE_FIXTURE(fixture, "several tensors of a file are the rows of one array") {
  name_map names = hugging_face_gpt2();
  names.rules.insert(
      names.rules.begin(),
      {{.file = {"h.*.q.weight", "h.*.k.weight", "h.*.v.weight"}, .model = "h.*.mlp.c_fc.weight", .transposed = true},
       {.file = {"h.*.q.bias", "h.*.kv.bias"}, .model = "h.*.mlp.c_fc.bias", .row_shares = {1, 2}}});
  tensors all = foreign("");
  for (const std::string block : {"h.0.", "h.1."}) {
    all.erase(block + "mlp.c_fc.weight");
    all.erase(block + "mlp.c_fc.bias");
    for (const char* part : {"q.weight", "k.weight", "v.weight"}) all[block + part] = {12, 8};
    all[block + "q.bias"] = {8};
    all[block + "kv.bias"] = {16};
  }
  write(file, all);
  training.load(file, {.names = names});
  const auto weight = training.parameter("h.0.mlp.c_fc.weight"), bias = training.parameter("h.0.mlp.c_fc.bias");
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(bias[i] == value("h.0.q.bias", i));
    CHECK(bias[16 + i] == value("h.0.kv.bias", 8 + i));
    CHECK(weight[i * 12 + 3] == value("h.0.q.weight", 3 * 8 + i));
    CHECK(weight[(16 + i) * 12 + 3] == value("h.0.v.weight", 3 * 8 + i));
  }
  training.save(folder.beside("again.safetensors"), {.names = names});
  CHECK(temporary_folder::read_file(folder.beside("again.safetensors")) == temporary_folder::read_file(file));
  all.erase("h.1.k.weight");
  write(file, all);
  refuses(names, "1 missing: h.1.k.weight");
}

TEST_CASE_FIXTURE(fixture, "names are for models of other programs, also for such a folder, and not for checkpoints") {
  std::filesystem::create_directory(folder.beside("gpt2"));
  write(folder.beside("gpt2") + "/model.safetensors", foreign(""));
  CHECK(training.load(folder.beside("gpt2"), {.names = hugging_face_gpt2()}).loaded.size() == 14);
  CHECK_THROWS_WITH_AS(training.save(folder.path(), {.names = hugging_face_gpt2()}),
                       doctest::Contains("names are given for the checkpoint"), error);
  training.save(folder.path());
  file = folder.path();
  refuses(hugging_face_gpt2(), "names are given, but the checkpoint is one of this library");
}

TEST_CASE_FIXTURE(fixture, "layers that are tied have equal values in a file, or it is refused") {
  training.save(file);
  CHECK(training.load(file).loaded.size() == 16);
  const safetensors_file ours(file);
  const auto values_of = [&](const safetensors_entry& e, float more) {
    std::vector<float> values(e.elements());
    ours.read(e, 0, std::span(values));
    values.back() += more;
    return values;
  };
  std::vector<safetensors_tensor> list;
  for (const safetensors_entry& e : ours.entries()) list.push_back({e.name, e.type, e.shape});
  const std::string changed = folder.beside("changed.safetensors");
  write_safetensors(changed, list, {}, [&](const safetensors_entry& e, safetensors_sink& into) {
    into.write(std::span<const float>(values_of(ours.at(e.name), e.name == "lm_head.bias" ? 1.0F : 0.0F)));
  });
  file = changed;
  refuses({}, "tensors \"wte.bias\" and \"lm_head.bias\" differ, but the model ties them to one array");
}
