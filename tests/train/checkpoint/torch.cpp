#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/temporary_folder.hpp"

// A model that PyTorch 2.15 has saved is loaded here, and five steps of training give PyTorch's losses. The file and
// the numbers are those of
//
//     torch.manual_seed(0)
//     model = Sequential(Linear(4, 5), BatchNorm1d(5), ReLU(), Linear(5, 3))
//     safetensors.torch.save_file(model.state_dict(), path)
//     x = torch.tensor([(i * 7 % 13) / 5 - 1 for i in range(64)]).reshape(16, 4)
//     y = torch.tensor([i % 3 for i in range(16)])
//
// and of five steps of SGD(lr=0.1, momentum=0.9), or Adam(lr=0.01), of cross_entropy(model(x), y).

using namespace gpipe;

namespace {

struct net : model<input<float, 4>, linear<5>, batch_norm<>, relu, linear<3>, softmax_cross_entropy> {};

constexpr std::string_view header = R"({"1.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                    R"("0.bias":{"dtype":"F32","shape":[5],"data_offsets":[8,28]},)"
                                    R"("0.weight":{"dtype":"F32","shape":[5,4],"data_offsets":[28,108]},)"
                                    R"("1.bias":{"dtype":"F32","shape":[5],"data_offsets":[108,128]},)"
                                    R"("1.running_mean":{"dtype":"F32","shape":[5],"data_offsets":[128,148]},)"
                                    R"("1.running_var":{"dtype":"F32","shape":[5],"data_offsets":[148,168]},)"
                                    R"("1.weight":{"dtype":"F32","shape":[5],"data_offsets":[168,188]},)"
                                    R"("3.bias":{"dtype":"F32","shape":[3],"data_offsets":[188,200]},)"
                                    R"("3.weight":{"dtype":"F32","shape":[3,5],"data_offsets":[200,260]}}  )";
constexpr std::string_view numbers =
    "000000000000000098f7393e4e94d43e48bdd2bd5c91bf3e400da5bd005475bb5e54893e16b3d2be8066bcbef43245beec4b093e404f22bc"
    "cefaca3e70bf35bd4c7b073eacbb1abe7048c9bdb891f4be528ba9bee80e53be00bb973c60694a3e189b993e8c8dadbefcf45ebe00000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000803f0000803f0000803f0000803f0000803f"
    "0000803f0000803f0000803f0000803f0000803f4eacc03c1fc86abe84f49a3d31d4413d7654cf3e6c69d4bebd2590be55dfe7bdf38132be"
    "4ad5c53e776a94bed4ce52be55f89fbe9072d6be38a985be36d3c43e20584c3e47f45d3e";

std::string torch_file() {
  std::string bytes(8, '\0');
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
  bytes += header;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    bytes += static_cast<char>(digit(numbers[i]) * 16 + digit(numbers[i + 1]));
  return bytes;
}

dataset torch_data() {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 64; ++i) x.push_back(static_cast<float>(i * 7 % 13) / 5 - 1);
  for (int i = 0; i < 16; ++i) y.push_back(i % 3);
  return dataset{}.with("inputs", 4, x).with("labels", 1, y);
}

template <class Optimizer>
void trains_as_torch(const Optimizer& optimizer, const double (&losses)[5], double variance, double weight) {
  const temporary_folder folder;
  temporary_folder::write_file(folder.beside("torch.safetensors"), torch_file());
  const dataset data = torch_data();
  for (const int stages : {1, 3}) {
    trainer<net, Optimizer> training({.stages = stages, .micro_batches = 1, .micro_batch_size = 16}, optimizer);
    CHECK(training.load(folder.beside("torch.safetensors")).loaded.size() == 8);
    for (const double loss : losses) {
      auto all = data.batches(16);
      for (const batch& next : all) CHECK(training.step(next).loss == doctest::Approx(loss).epsilon(1e-6));
    }
    CHECK(training.state("1.running_var")[2] == doctest::Approx(variance).epsilon(1e-5));
    CHECK(training.parameter("0.weight")[1 * 4 + 2] == doctest::Approx(weight).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("five steps after loading PyTorch's file give PyTorch's losses") {
  trains_as_torch(sgd{.learning_rate = 0.1, .momentum = 0.9}, {1.2341361, 1.1460969, 1.0714048, 1.0127383, 0.9673814},
                  0.6518835, -0.1180567);
  trains_as_torch(adam{.learning_rate = 0.01}, {1.2341361, 1.1871594, 1.1460733, 1.1096263, 1.0791310}, 0.6069997,
                  -0.0592880);
}

TEST_CASE("what is saved again has the numbers of PyTorch's file, bit for bit") {
  const temporary_folder folder;
  const std::string from = folder.beside("torch.safetensors"), to = folder.beside("ours.safetensors");
  temporary_folder::write_file(from, torch_file());
  trainer<net, sgd> training(plan_options{.stages = 2, .micro_batches = 1, .micro_batch_size = 16});
  training.load(from);
  training.save(to);
  const safetensors_file theirs(from), ours(to);
  CHECK(ours.entries().size() == 8);
  for (const safetensors_entry& e : ours.entries()) {
    CAPTURE(e.name);
    const safetensors_entry& other = theirs.at(e.name);
    CHECK(other.shape == e.shape);
    std::vector<std::byte> mine(e.bytes()), its(other.bytes());
    ours.read_bytes(e, 0, mine);
    theirs.read_bytes(other, 0, its);
    CHECK(mine == its);
  }
}
