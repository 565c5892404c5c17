#pragma once

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/pooling/average_pool.hpp>
#include <gpipe/layer/pooling/global_average_pool.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/layer/shape/pad.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

/// Options of `amoebanet_d` and `amoebanet_b`.
struct amoebanet_options {
  int classes = 1000;
  int side = 224;
  int channels = 3;
  /// torchgpipe's `max_pool_3x3` computes an average, as `avg_pool_3x3`. True builds that network.
  bool average_as_maximum = false;
};

namespace detail::amoebanet {

// From the smallest part to the largest: an operation, a sum of two, a cell, the network, which `amoebanet_d` draws.

/// relu, convolution, batch norm: the building block of all operations.
template <int Out, height_width Kernel = 1, height_width Stride = 1, height_width Padding = 0>
struct relu_conv
    : sequence<relu, conv2d<Out, Kernel, conv_options{.stride = Stride, .padding = Padding, .bias = false}>,
               batch_norm<>> {};

// The operations on a state of C channels, with a stride of S; `none` is the state itself.
struct none {
  template <int C, int S>
  struct layers : sequence<> {};
};
struct conv_1x1 {
  template <int C, int S>
  struct layers : relu_conv<C, 1, S> {};
};
struct conv_3x3 {
  template <int C, int S>
  struct layers : sequence<relu_conv<C / 4>, relu_conv<C / 4, 3, S, 1>, relu_conv<C>> {};
};
struct conv_1x7_7x1 {
  template <int C, int S>
  struct layers
      : sequence<relu_conv<C / 4>, relu_conv<C / 4, height_width{1, 7}, height_width{1, S}, height_width{0, 3}>,
                 relu_conv<C / 4, height_width{7, 1}, height_width{S, 1}, height_width{3, 0}>, relu_conv<C>> {};
};
/// Two separable convolutions with a dilation: one per channel, then one of 1 x 1.
template <int Kernel, int Dilation = 1>
struct separable {
  template <int C, int S>
  struct once
      : sequence<
            relu,
            conv2d<
                C, Kernel,
                conv_options{
                    .stride = S, .padding = Dilation*(Kernel / 2), .dilation = Dilation, .groups = C, .bias = false}>,
            conv2d<C, 1, conv_options{.bias = false}>, batch_norm<>> {};
  template <int C, int S>
  struct layers : sequence<once<C, S>, once<C, 1>> {};
};
struct avg_3x3 {
  template <int C, int S>
  struct layers : sequence<average_pool<3, pool_options{.stride = S, .padding = 1, .count_padding = false}>> {};
};
struct max_3x3 {
  template <int C, int S>
  struct layers : sequence<max_pool<3, pool_options{.stride = S, .padding = 1}>> {};
};
struct max_2x2 {
  template <int C, int S>
  struct layers : sequence<max_pool<2, pool_options{.stride = S}>> {};
};

/// C channels and half the image: the even pixels' channels, then the odd pixels'.
template <int C>
struct factorized_reduce
    : scope<relu, stash<"x">, conv2d<C / 2, 1, conv_options{.stride = 2, .bias = false}>, stash<"even">, only<pop<"x">>,
            pad<-1, 1, -1, 1>, conv2d<C / 2, 1, conv_options{.stride = 2, .bias = false}>, stash<"odd">,
            only<pop<"even">>, pop<"odd">, gpipe::concat<>, batch_norm<>> {};

/// State `To` = an operation on state A + one on state B.
template <text To, text A, class First, text B, class Second>
struct sum : sequence<scope<only<pop<A>>, First, stash<"sum">, only<pop<B>>, Second, pop<"sum">, add>, stash<To>> {};

/// A cell takes the outputs s1 of the previous cell and s2 of the cell before it, and gives its own output and s1. It
/// begins with states 0 and 1. After a reduction s2 is twice as large.
template <int C, bool AfterReduction>
struct entry : sequence<stash<"s1", "s2">, only<pop<"s1">>, relu_conv<C>, stash<"0">, only<pop<"s2">>,
                        std::conditional_t<AfterReduction, factorized_reduce<C>, relu_conv<C>>, stash<"1">> {};

template <class Max3x3>
struct cells_d {
  template <int C, bool AfterReduction>
  struct normal : scope<entry<C, AfterReduction>,
                        sum<"2", "1", typename conv_1x1::layers<C, 1>, "1", typename Max3x3::template layers<C, 1>>,
                        sum<"3", "1", typename none::layers<C, 1>, "0", typename conv_1x7_7x1::layers<C, 1>>,
                        sum<"4", "0", typename conv_1x1::layers<C, 1>, "0", typename conv_1x7_7x1::layers<C, 1>>,
                        sum<"5", "2", typename Max3x3::template layers<C, 1>, "2", typename none::layers<C, 1>>,
                        sum<"6", "1", typename avg_3x3::layers<C, 1>, "5", typename conv_1x1::layers<C, 1>>,
                        only<pop<"0">>, pop<"3">, pop<"4">, pop<"6">, gpipe::concat<>, pop<"s1">> {};

  template <int C, bool AfterReduction>
  struct reduction
      : scope<entry<C, AfterReduction>,
              sum<"2", "0", typename max_2x2::layers<C, 2>, "0", typename Max3x3::template layers<C, 2>>,
              sum<"3", "2", typename none::layers<C, 1>, "1", typename conv_3x3::layers<C, 2>>,
              sum<"4", "2", typename conv_1x7_7x1::layers<C, 1>, "2", typename Max3x3::template layers<C, 1>>,
              sum<"5", "3", typename none::layers<C, 1>, "1", typename max_2x2::layers<C, 2>>,
              sum<"6", "2", typename avg_3x3::layers<C, 1>, "3", typename conv_1x1::layers<C, 1>>, only<pop<"4">>,
              pop<"5">, pop<"6">, gpipe::concat<>, pop<"s1">> {};
};

template <class Max3x3>
struct cells_b {
  template <int C, bool AfterReduction>
  struct normal : scope<entry<C, AfterReduction>,
                        sum<"2", "1", typename conv_1x1::layers<C, 1>, "1", typename Max3x3::template layers<C, 1>>,
                        sum<"3", "1", typename none::layers<C, 1>, "0", typename separable<3>::layers<C, 1>>,
                        sum<"4", "1", typename conv_1x1::layers<C, 1>, "0", typename separable<3>::layers<C, 1>>,
                        sum<"5", "2", typename conv_1x1::layers<C, 1>, "2", typename none::layers<C, 1>>,
                        sum<"6", "1", typename avg_3x3::layers<C, 1>, "5", typename conv_1x1::layers<C, 1>>,
                        only<pop<"0">>, pop<"3">, pop<"4">, pop<"6">, gpipe::concat<>, pop<"s1">> {};

  template <int C, bool AfterReduction>
  struct reduction
      : scope<entry<C, AfterReduction>,
              sum<"2", "0", typename max_2x2::layers<C, 2>, "0", typename Max3x3::template layers<C, 2>>,
              sum<"3", "2", typename none::layers<C, 1>, "1", typename conv_3x3::layers<C, 2>>,
              sum<"4", "2", typename separable<5, 2>::layers<C, 1>, "2", typename Max3x3::template layers<C, 1>>,
              sum<"5", "3", typename none::layers<C, 1>, "1", typename separable<3>::layers<C, 2>>,
              sum<"6", "4", typename avg_3x3::layers<C, 1>, "3", typename conv_1x1::layers<C, 1>>, only<pop<"5">>,
              pop<"6">, gpipe::concat<>, pop<"s1">> {};
};

/// N normal cells after a reduction.
template <int N, int C, class Cells>
struct normal_cells
    : sequence<typename Cells::template normal<C, true>, repeat<N - 1, typename Cells::template normal<C, false>>> {};
template <int C, class Cells>
struct normal_cells<1, C, Cells> : sequence<typename Cells::template normal<C, true>> {};

/// The whole network. Cells take and give two tensors: `stash<"x">, pop<"x">` makes the first pair, of one tensor
/// twice, and `stash<"out", "">, only<pop<"out">>` leaves only the last cell's own output.
template <class Cells, int L, int D, amoebanet_options Options, class T>
struct network
    : model<input_image<T, Options.channels, Options.side, Options.side>, named<"stem1", relu_conv<D / 4, 3, 2, 1>>,
            stash<"x">, pop<"x">, named<"stem2", typename Cells::template reduction<D / 2, false>>,
            named<"stem3", typename Cells::template reduction<D, true>>, named<"cell1", normal_cells<L / 3, D, Cells>>,
            named<"cell2", typename Cells::template reduction<2 * D, false>>,
            named<"cell3", normal_cells<L / 3, 2 * D, Cells>>,
            named<"cell4", typename Cells::template reduction<4 * D, false>>,
            named<"cell5", normal_cells<L / 3, 4 * D, Cells>>, stash<"out", "">, only<pop<"out">>, global_average_pool,
            named<"classify", linear<Options.classes>>, softmax_cross_entropy> {};

}  // namespace detail::amoebanet

/// AmoebaNet-D (L, D) (Real et al., 2019), as GPipe (Huang et al., 2019) and torchgpipe (Kim et al., 2020) build it: L
/// normal cells in three groups, D filters.
///
///     image {3, Side, Side}
///     stem1    relu, convolution 3 x 3 to D / 4, stride 2, batch norm
///     stem2    reduction cell, D / 2                 every edge carries two tensors:
///     stem3    reduction cell, D                     this cell's output and the previous cell's
///     cell1    L / 3 normal cells, D
///     cell2    reduction cell, 2 D
///     cell3    L / 3 normal cells, 2 D
///     cell4    reduction cell, 4 D
///     cell5    L / 3 normal cells, 4 D
///     classify mean, linear
///
/// A sum of a cell names the new state and the two operations, each with the state that it reads. The cut may go
/// through a cell. The outputs of a normal cell are states 0, 3, 4, 6, as in Google's code, and not 4, 5, 6, as in the
/// paper.
///
///     parameters of (L, D): (18, 208) 81,505,540  (18, 256) 122,470,120  (18, 416) 319,024,120  (18, 544) 542,734,840
///                           (36, 544) 1,055,832,376  (72, 512) 1,844,858,344
template <int L, int D, amoebanet_options Options = amoebanet_options{}, class T = float,
          class Max3x3 =
              std::conditional_t<Options.average_as_maximum, detail::amoebanet::avg_3x3, detail::amoebanet::max_3x3>>
struct amoebanet_d : detail::amoebanet::network<detail::amoebanet::cells_d<Max3x3>, L, D, Options, T> {
  static_assert(L >= 3 && L % 3 == 0,
                "gpipe: amoebanet_d<L, D>: L, the number of normal cells, must be a multiple of 3");
  static_assert(D >= 16 && D % 4 == 0,
                "gpipe: amoebanet_d<L, D>: D, the number of filters, must be a multiple of 4, "
                "at least 16");
};

/// AmoebaNet-B (L, D) (Real et al., 2019), with which GPipe reaches its accuracies: the outline of `amoebanet_d`, with
/// other cells. Their separable convolutions are two each, of 3 x 3 pixels, or of 5 x 5 with a dilation of 2. The cells
/// are as in Google's code; at D = 512 they have 560,053,608 parameters, where GPipe prints 557 million.
template <int L, int D, amoebanet_options Options = amoebanet_options{}, class T = float>
struct amoebanet_b
    : detail::amoebanet::network<detail::amoebanet::cells_b<detail::amoebanet::max_3x3>, L, D, Options, T> {
  static_assert(L >= 3 && L % 3 == 0,
                "gpipe: amoebanet_b<L, D>: L, the number of normal cells, must be a multiple of 3");
  static_assert(D >= 16 && D % 4 == 0,
                "gpipe: amoebanet_b<L, D>: D, the number of filters, must be a multiple of 4, "
                "at least 16");
  static_assert(!Options.average_as_maximum,
                "gpipe: amoebanet_b: .average_as_maximum is torchgpipe's, whose network is amoebanet_d");
};

}  // namespace gpipe
