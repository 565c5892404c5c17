#pragma once

// The families of models that ship, each at a few widths and at any depth.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/model/vision/resnet.hpp>
#include <gpipe/model/vision/unet.hpp>

#include "largest.hpp"

namespace example {

using namespace gpipe;

enum class family_kind { amoebanet, resnet, unet, transformer, gpt2, encoder_decoder, own };

inline constexpr std::pair<const char*, family_kind> families[] = {{"amoebanet", family_kind::amoebanet},
                                                                   {"resnet", family_kind::resnet},
                                                                   {"unet", family_kind::unet},
                                                                   {"transformer", family_kind::transformer},
                                                                   {"gpt2", family_kind::gpt2},
                                                                   {"encoder-decoder", family_kind::encoder_decoder},
                                                                   {"own", family_kind::own}};

struct family {
  std::string title, depth;  ///< what it is, and what its depth counts
  int micro_batches = 32;    ///< of one sample, where the papers' mini-batch is so large
  std::vector<family_member> members;
};

/// A family whose repetitions are those of `repeat`.
template <class Model>
family_member member(std::string width, int depth, int step = 1) {
  const network& net = network_of<Model>;
  return {std::move(width), &net, repetitions_of(net), depth, step};
}

// Four groups of L / 3 normal cells; the last two cells of each are equal from L = 12 on.
template <int D>
family_member amoebanet_member() {
  return member<amoebanet_d<12, D>>("D = " + std::to_string(D), 12, 3);
}

/// ResNet-50, whose third group gets further bottlenecks, three convolutions each: as ResNet-101 has 17 more.
inline family_member resnet_member() {
  const network& net = network_of<resnet<50>>;
  repetition last{net.layer_count, 0};
  for (int l = 0; l < net.layer_count; ++l)
    if (gpipe::detail::path_of(net, l).starts_with("layer3.5")) last = {std::min(last.begin, l), l + 1};
  return {"bottlenecks", &net, {last}, 50, 3};
}

inline family family_of(family_kind kind, const network& own) {
  switch (kind) {
    case family_kind::amoebanet:
      return {"AmoebaNet-D (L, D), images of 224 x 224",
              "L",
              128,
              {amoebanet_member<208>(), amoebanet_member<416>(), amoebanet_member<512>(), amoebanet_member<544>()}};
    case family_kind::resnet:
      return {"ResNet, images of 224 x 224", "depth", 128, {resnet_member()}};
    case family_kind::unet:
      return {
          "U-Net (B, C), images of 192 x 192",
          "B",
          32,
          {member<unet<4, 64>>("C = 64", 4), member<unet<4, 128>>("C = 128", 4), member<unet<4, 160>>("C = 160", 4)}};
    case family_kind::transformer:
      return {"the paper's Transformer, 1024 tokens", "blocks", 32, {member<transformer<3>>("d = 2048", 3)}};
    case family_kind::gpt2:
      return {"GPT-2, 1024 tokens",
              "blocks",
              32,
              {member<gpt2<2, 768>>("d = 768", 2), member<gpt2<2, 1600>>("d = 1600", 2)}};
    case family_kind::encoder_decoder:  // the first decoder layer has other types: the value before it is the words'
      return {"Transformer for translation, T(L, H, A), 128 words",
              "L",
              32,
              {member<encoder_decoder<3, 8192, 16>>("H = 8192, A = 16", 3),
               member<encoder_decoder<3, 16384, 32>>("H = 16384, A = 32", 3)}};
    case family_kind::own:
      break;
  }
  return {"own_model of examples/plan.cpp", "repetitions", 32, {{"", &own, repetitions_of(own), 0, 1}}};
}

}  // namespace example
