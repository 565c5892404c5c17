// How fast does GPT-2 write, compared with transformers on the same weights?
//
//     generate [tokens [rounds]]

#include "../measure.hpp"
#include "../peer.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/tools/generation/generator.hpp>
#include <gpipe/tools/names/hugging_face.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace gpipe;

using small_gpt2 = gpt2<12, 768>;  // 124 million parameters

/// A folder that ends with the program.
struct scratch {
  std::filesystem::path path;
  scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "gpipe-generate-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw error("cannot make a temporary folder", "check TMPDIR");
    path = name;
  }
  ~scratch() { std::filesystem::remove_all(path); }
};

}  // namespace

int main(int count, char** arguments) {
  const int tokens = count > 1 ? std::atoi(arguments[1]) : 100, rounds = count > 2 ? std::atoi(arguments[2]) : 7;
  bench::print_environment();
  const scratch folder;
  const std::string file = (folder.path / "model.safetensors").string();
  trainer<small_gpt2, sgd> training{{.stages = 2, .micro_batches = 1, .micro_batch_size = 1}};
  training.save(file, {.names = hugging_face_gpt2("transformer.")});
  const generator<small_gpt2> ours(training);

  const std::vector<std::int32_t> prompt{464, 2068, 7586, 21831};
  std::printf("GPT-2 of 124 M parameters, greedy, %d tokens behind %zu; tokens per second, medians of %d rounds\n",
              tokens, prompt.size(), rounds);
  bench::rival transformers("generate/transformers_gpt2.py", file + "," + std::to_string(tokens));
  std::vector<std::int32_t> text;
  int threads = 1;
  const auto write = [&] { text = ours.generate(prompt, {.tokens = tokens, .threads = threads}); };
  write(), transformers.seconds("1", 1), transformers.seconds("2", 1);
  std::vector<double> alone, shared, one, two, ratios;
  for (int round = 0; round < rounds; ++round) {
    threads = 1, alone.push_back(tokens / bench::timed(write));
    threads = 2, shared.push_back(tokens / bench::timed(write));
    one.push_back(tokens / transformers.seconds("1", 1));
    two.push_back(tokens / transformers.seconds("2", 1));
    ratios.push_back(std::max(alone.back(), shared.back()) / std::max(one.back(), two.back()));
  }
  std::printf("  gpipe, 1 thread          %6.1f  (10 %% %.1f, 90 %% %.1f)\n", bench::median(alone),
              bench::quantile(alone, 0.1), bench::quantile(alone, 0.9));
  std::printf("  gpipe, 2 threads         %6.1f  (10 %% %.1f, 90 %% %.1f)\n", bench::median(shared),
              bench::quantile(shared, 0.1), bench::quantile(shared, 0.9));
  if (bench::median(one) > 0) {
    std::printf("  transformers, 1 thread   %6.1f\n  transformers, 2 threads  %6.1f\n", bench::median(one),
                bench::median(two));
    // Its answer to the way "same" is the number of tokens, after the prompt, that are ours.
    std::string words;
    for (const std::int32_t token : text) words += (words.empty() ? "" : ",") + std::to_string(token);
    std::printf("  the same tokens: %.0f of %d\n",
                bench::peer("generate/transformers_gpt2.py", file + "," + words)["same"], tokens);
    bench::result("generate.over_torch", bench::median(ratios), "ratio");
  } else {
    std::printf("  transformers is not installed: gpipe alone\n");
  }
  bench::result("generate.tokens", std::max(bench::median(alone), bench::median(shared)), "tokens/s");
}
