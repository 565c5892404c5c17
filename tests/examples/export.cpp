// sanitizers: none

#include "../examples/plan/export/exported.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

using namespace gpipe;
using namespace example;

namespace {

/// A file of this text while it is in scope.
struct written {
  std::string path;
  written(std::string name, const std::string& text) : path(std::move(name)) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~written() { std::remove(path.c_str()); }
};

const std::string llama =
    R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 24, "num_attention_heads": 4,
        "num_hidden_layers": 3, "num_key_value_heads": 2, "max_position_embeddings": 16, "vocab_size": 100,
        "rope_scaling": {"factor": 8.0}, "rms_norm_eps": 1e-05})";
const std::string gpt2 =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_inner": null, "n_positions": 16,
        "vocab_size": 50})";

decoder read(const std::string& text) {
  const written file("export_test.json", text);
  return decoder_of(file.path);
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}
std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const error& cause) {
    return cause.what();
  }
  return "none";
}

/// A device on which an operation and a byte take a nanosecond each, and a launch nothing.
constexpr device_spec plain{.name = "plain",
                            .float32 = 1'000'000'000,
                            .float64 = 1'000'000'000,
                            .half = 1'000'000'000,
                            .memory_bytes_per_second = 1'000'000'000};

/// Layers by letters: E, t, n, m and L.
framework_layers letters_of(const std::string& letters) {
  framework_layers made{"letters", {}, {}, {}};
  for (const char c : letters) {
    const auto role = static_cast<layer_role>(std::string("EtnmL").find(c));
    made.add(role, {std::string(1, c), 4, 8, 100, 10, 1}, {4, 5, 3});
  }
  return made;
}

const std::string header = "name,forward_ns,backward_ns,parameter_bytes,activation_bytes\n";

std::string refused_table(const std::string& lines) {
  const written file("export_test.csv", header + lines);
  try {
    layers_of_table(file.path);
  } catch (const error& cause) {
    return cause.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a config of LLaMA's family is read") {
  const decoder it = read(llama);
  CHECK((it.blocks == 3 && it.width == 8 && it.hidden == 24 && it.vocabulary == 100 && it.positions == 16));
  CHECK((it.heads == 4 && it.key_heads == 2 && it.head_width == 2 && it.window == 0));
  CHECK((it.gated && !it.has_biases && !it.has_query_biases && !it.has_position_table));
  CHECK(read(replaced(llama, "\"num_key_value_heads\": 2", "\"head_dim\": 5")).queries() == 20);
  CHECK(read(replaced(llama, "\"num_key_value_heads\": 2", "\"head_dim\": null")).keys() == 8);
  CHECK(read(replaced(llama, "\"llama\"", "\"qwen2\"")).has_query_biases);
  const std::string mistral = replaced(llama, "\"llama\"", "\"mistral\"");
  CHECK(read(mistral).window == 4096);
  CHECK(read(replaced(mistral, "\"vocab_size\"", "\"sliding_window\": null, \"vocab_size\"")).window == 0);
  CHECK(read(replaced(mistral, "\"vocab_size\"", "\"sliding_window\": 4, \"vocab_size\"")).window == 4);
}

TEST_CASE("a config of GPT-2 is read") {
  const decoder it = read(gpt2);
  CHECK((it.blocks == 2 && it.width == 8 && it.hidden == 32 && it.head_width == 4 && it.keys() == 8));
  CHECK((it.has_biases && it.has_position_table && !it.gated));
}

TEST_CASE("a config that is not understood is an error that names the field") {
  CHECK(
      refusal(replaced(llama, "llama", "mamba")) ==
      "export_test.json: model_type is \"mamba\", a family that is not known; give a model of gpt2, llama, mistral or "
      "qwen2, or a table of measured costs with --costs");
  CHECK(refusal(replaced(llama, "\"hidden_size\"", "\"size\"")) ==
        "export_test.json: hidden_size is missing; give the config.json of a whole model");
  CHECK(refusal("{}").find("model_type is missing") != std::string::npos);
  CHECK(refusal(replaced(llama, "\"llama\"", "7")).find("model_type is 7; give a word in quotes") != std::string::npos);
  for (const char* wrong : {"0", "-8", "8.5", "\"8\"", "99999999999999999999", "[8]"})
    CHECK(refusal(replaced(llama, "\"hidden_size\": 8", std::string("\"hidden_size\": ") + wrong))
              .find(std::string("hidden_size is ") + wrong + "; give a whole number from 1 to 1048576") !=
          std::string::npos);
  CHECK(refusal(replaced(llama, "\"num_attention_heads\": 4", "\"num_attention_heads\": 3"))
            .find("the width 8 is no multiple of 3 attention heads; correct one of them, or give head_dim") !=
        std::string::npos);
  CHECK(refusal("{\"model_type\": ").find("export_test.json: the config, byte ") == 0);
}

TEST_CASE("the costs of a LLaMA by hand") {
  decoder it = read(llama);
  const framework_layers made = decoder_costs(it, 2, 16, plain).layers("it");
  REQUIRE(made.roles.size() == 6);
  CHECK(made.count(layer_role::block) == 3);
  // 32 rows; 1 ns an operation or byte. qkv 8 -> 16, proj 8 -> 8, gate and up 8 -> 48, fc2 24 -> 8.
  const auto product = [](std::int64_t in, std::int64_t out) {
    return 2 * 32 * in * out + 2 * (32 * (in + out) + in * out);
  };
  const std::int64_t products = product(8, 16) + product(8, 8) + product(8, 48) + product(24, 8);
  const std::int64_t pairs = 16 * 16 - 16 * 16 / 2, flops = 2 * 4 * pairs * 8, moved = 32 * 2 * (16 + 8);
  const std::int64_t elementwise = 32 * (2 * 32 + 2 * 48 + 6 * 24);
  CHECK(made.costs[1] == layer_cost{products + flops + moved + elementwise,
                                    products + flops / 2 * 5 + 2 * moved + elementwise / 2 * 3, products});
  CHECK(made.lines[1].parameter_bytes == 18 * (8 * 16 + 8 * 8 + 8 * 48 + 24 * 8 + 2 * 8));
  CHECK(made.lines[1].activation_bytes == 32 * (2 * (32 + 16 + 8 + 72) + 16));
  CHECK(made.lines[1].output_bytes == 32 * 2 * 8);
  CHECK(made.costs[2] == made.costs[1]);
  CHECK(made.costs[5] == layer_cost{product(8, 100) + 32 * 600, product(8, 100) + 32 * 900, product(8, 100)});
  CHECK(made.lines[5].parameter_bytes == 18 * 800);
  CHECK(made.lines[0].parameter_bytes == 18 * 800);
  CHECK(made.costs[0] == layer_cost{32 * 32, 32 * 48, 0});
  it.window = 4;  // a token sees 4 before it: 4 x 16 - 4 x 4 / 2 pairs
  const framework_layers near = decoder_costs(it, 2, 16, plain).layers("it");
  CHECK(made.costs[1].forward - near.costs[1].forward == 2 * 4 * (pairs - 56) * 8);
}

TEST_CASE("a GPT-2 has as many parameters as the model") {
  decoder it;
  it.blocks = 12, it.width = 768, it.heads = it.key_heads = 12, it.head_width = 64, it.hidden = 3072;
  it.vocabulary = 50257, it.positions = 1024, it.has_biases = it.has_position_table = true;
  const framework_layers made = decoder_costs(it, 1, 1024, h100).layers("it");
  std::int64_t parameters = 0;
  for (const table_layer& l : made.lines) parameters += l.parameter_bytes / bytes_of_parameter;
  CHECK(parameters == 124'439'808 + 50257 * 768);  // the head has a copy of the embedding's table
}

TEST_CASE("sizes that exceed 64 bits are errors") {
  decoder it = read(llama);
  it.vocabulary = 1 << 28, it.width = 1 << 20, it.positions = 1 << 28;
  CHECK_THROWS_WITH_AS(decoder_costs(it, 1'000'000, 100'000'000, plain).layers("it"),
                       doctest::Contains("a cost exceeds 64 bits"), error);
}

TEST_CASE("a table's lines are an embedding, blocks, perhaps a norm and predictions, and a head") {
  const written file("export_test.csv",
                     header + "a,0,0,1,2\nb0,3,5,1,2\nb1,3,5,1,2\nmtp,7,9,1,2\nln_norm,1,1,1,1\nh,4,8,1,2\n");
  const framework_layers made = layers_of_table(file.path);
  CHECK(made.roles == std::vector<layer_role>{layer_role::embedding, layer_role::block, layer_role::block,
                                              layer_role::prediction, layer_role::norm, layer_role::head});
  CHECK(made.costs[1] == layer_cost{3, 2, 3});
  CHECK(refused_table("a,1,1,1,1\nb,0,5,1,1\nh,1,1,1,1\n") ==
        "export_test.csv:3: b: forward_ns is 0; give the time that the layer takes: a cut is made by times");
  CHECK(refused_table("a,1,1,1,1\nb,4,0,1,1\nh,1,1,1,1\n").find("export_test.csv:3: b: backward_ns is 0") == 0);
  CHECK(refused_table("a,1,1,1,1\nb,4,4,1,1\nh,0,1,1,1\n").find("export_test.csv:4: h: forward_ns is 0") == 0);
  CHECK(refused_table("a,1,1,1,1\nh,1,1,1,1\n").find("export_test.csv: there is no block; give a line for") == 0);
}

TEST_CASE("a norm joins the layer before it, and predictions are one layer") {
  const framework_layers made = letters_of("EttnmmL").joined();
  CHECK(made.roles == std::vector<layer_role>{layer_role::embedding, layer_role::block, layer_role::block,
                                              layer_role::prediction, layer_role::head});
  CHECK(made.costs[2] == layer_cost{8, 10, 6});
  CHECK(made.lines[3].forward_ns == 8);
  CHECK(made.lines[3].parameter_bytes == 200);
}

TEST_CASE("layouts of Megatron") {
  const auto layout = [](const std::string& letters, const cut_list& first) {
    return layout_of(letters_of(letters), first);
  };
  CHECK(layout("EttttL", {0, 3, 6}) == "Ett|ttL");
  CHECK(layout("EttttttttL", {0, 4, 8, 10}) == "Et*3|t*4|tL");
  CHECK(layout("EtttttttL", {0, 1, 3, 5, 7, 8, 9}) == "E|(tt|)*3t|L");
  CHECK(layout("EttttL", {0, 2, 3, 4, 6}) == "Et|t|t|tL");
  CHECK(layout("EtttttttttL", {0, 1, 4, 7, 10, 11}) == "E|(t*3|)*3L");
  CHECK(layout("EttttmL", {0, 2, 5, 6, 7}) == "Et|t*3|m|L");
}

TEST_CASE("lists of torchtitan and DeepSpeed") {
  const framework_layers made = letters_of("EtttnL");
  CHECK(
      modules_of(made, {0, 2, 3, 6}) ==
      "[\n    [\"tok_embeddings\", \"layers.0\"],\n    [\"layers.1\"],\n    [\"layers.2\", \"norm\", \"lm_head\"]\n]");
  const std::string text = torchtitan_text(made, {0, 2, 3, 6}, schedule_kind::one_f_one_b, 8, "out/schedule.csv");
  CHECK(text.find("config.parallelism.pipeline_parallel_degree = 3\n"
                  "config.parallelism.num_pp_microbatches = 8\n"
                  "config.parallelism.pipeline_parallel_schedule = \"PipelineScheduleMulti\"\n"
                  "config.parallelism.pipeline_parallel_schedule_csv = \"out/schedule.csv\"\n"
                  "config.parallelism.module_fqns_per_model_part = [\n") == 0);
  CHECK(torchtitan_text(letters_of("EttttnL"), {0, 2, 3, 4, 7}, schedule_kind::zb_v, 8, "t")
            .find("degree = 2\nconfig.parallelism.num_pp_microbatches = 8\n"
                  "config.parallelism.pipeline_parallel_schedule = \"ZBVZeroBubble\"") != std::string::npos);
  CHECK(torchtitan_text(letters_of("EttttnL"), {0, 2, 3, 4, 7}, schedule_kind::interleaved, 8, "t")
            .find("degree = 2\nconfig.parallelism.num_pp_microbatches = 8\n"
                  "config.parallelism.pipeline_parallel_schedule = \"PipelineScheduleMulti\"") != std::string::npos);
  const std::string module = deepspeed_text(made, {0, 2, 3, 6});
  CHECK(module.find("# Give PlannedPipeline these 6 layers: embedding, 3 blocks, norm, head.\n") == 0);
  CHECK(module.find("\nPARTS = [0, 2, 3, 6]  #") != std::string::npos);
}

TEST_CASE("the plan's cut is no longer than the cut with equal numbers of blocks") {
  decoder it = read(llama);
  it.blocks = 24, it.width = 512, it.hidden = 1536, it.vocabulary = 100'000, it.head_width = 128, it.positions = 512;
  const framework_layers made = decoder_costs(it, 1, 512, a100_80gb).layers("it").joined();
  CHECK(even_cut(made, 4) == cut_list{0, 7, 13, 19, 26});
  const subject planned_as = made.planned();
  for (const schedule_kind kind : {schedule_kind::one_f_one_b, schedule_kind::interleaved, schedule_kind::zb_v}) {
    const choice how{.stages = 8, .micro_batches = 16, .schedule = kind, .recompute = recompute_mode::never};
    planner plans(planned_as, how);
    const planned best = plans.plan(), even = plans.plan_of(even_cut(made, 8));
    CHECK(best.makespan < even.makespan);
    CHECK(best.bound <= best.makespan);
    CHECK(plans.plan_of(cut_of(best)).makespan == best.makespan);
  }
}

TEST_CASE("a cut that is many borders away is found") {
  framework_layers made = letters_of("E" + std::string(61, 't') + "L");
  for (std::size_t l = 0; l < made.costs.size(); ++l)
    made.costs[l] = made.roles[l] == layer_role::block ? layer_cost{100, 100, 100} : layer_cost{230, 230, 230};
  made.costs[0] = {1, 1, 0};
  const subject it = made.planned();
  choice how{
      .stages = 32, .micro_batches = 128, .schedule = schedule_kind::interleaved, .recompute = recompute_mode::never};
  cut_list expected{0, 2};
  while (expected.size() < 32) expected.push_back(expected.back() + 2);
  expected.push_back(63);
  planner plans(it, how);
  REQUIRE(layout_of(made, expected) == "Et|(tt|)*30L");
  const planned best = moved_plan(it, how);
  CHECK(best.makespan <= plans.step_time(expected));
  CHECK(best.makespan < plans.plan().makespan);  // which the planner alone does not find

  std::int64_t largest = 0;
  for (const planned_stage& s : best.stages) largest = std::max(largest, s.bytes);
  how.limit = largest - 1;
  how.micro_batches = 32;
  for (const planned_stage& s : moved_plan(it, how).stages) CHECK(s.bytes <= how.limit);
}
