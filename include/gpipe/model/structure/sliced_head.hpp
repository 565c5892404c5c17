#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/attention/vocabulary_slice.hpp>
#include <gpipe/layer/loss/carried_cross_entropy.hpp>
#include <gpipe/model/structure/items.hpp>

namespace gpipe {

namespace detail {

/// The anonymous stash of a sliced head: its input, which all slices read.
struct head_stash {
  static constexpr const char* stashed_as = "head";
};
struct pop_head {
  using popped = head_stash;
};

/// "slice" and a number below 1000.
template <int Slice>
constexpr auto slice_name() {
  constexpr std::size_t digits = Slice < 10 ? 1 : Slice < 100 ? 2 : 3;
  char name[6 + digits] = {'s', 'l', 'i', 'c', 'e'};
  for (std::size_t d = digits, rest = Slice; d > 0; rest /= 10) name[4 + d--] = static_cast<char>('0' + rest % 10);
  return text<6 + digits>(name);
}

/// The first word of a slice: the first slices have one word more, if the number of slices does not divide the
/// vocabulary.
constexpr int first_of_slice(int vocabulary, int slices, int slice) {
  const int more = vocabulary % slices;
  return vocabulary / slices * slice + (slice < more ? slice : more);
}

template <class... Lists>
struct joined_lists {
  using type = list<>;
};
template <class... As, class... Rest>
struct joined_lists<list<As...>, Rest...> {
  template <class>
  struct behind;
  template <class... Bs>
  struct behind<list<Bs...>> {
    using type = list<As..., Bs...>;
  };
  using type = typename behind<typename joined_lists<Rest...>::type>::type;
};

/// Each slice as it is, without a wrapper such as a tie.
struct slice_alone {
  template <class Slice>
  using around = Slice;
};

/// The items of a sliced head.
template <int Vocabulary, class Options, class Each = slice_alone,
          class Indices = std::make_integer_sequence<int, Options::slices>>
struct sliced_items;
template <int Vocabulary, class Options, class Each, int... Slices>
struct sliced_items<Vocabulary, Options, Each, std::integer_sequence<int, Slices...>> {
  static constexpr int count = sizeof...(Slices);
  template <int Which>
  using slice =
      vocabulary_slice<Vocabulary, first_of_slice(Vocabulary, count, Which),
                       first_of_slice(Vocabulary, count, Which + 1) - first_of_slice(Vocabulary, count, Which),
                       Options::biased, Options::settings>;
  template <int Which>
  using read_by = std::conditional_t<Which == 0, head_stash, pop_head>;
  using type = typename joined_lists<
      list<read_by<Slices>, named<slice_name<Slices>(), typename Each::template around<slice<Slices>>>>...,
      list<carried_cross_entropy<Vocabulary, Options::settings>>>::type;
};

}  // namespace detail

/// A sliced head: N slices of the vocabulary, V / N words each, and the loss.
///
///     x ----+-----------+----- ... ----+
///           v           v              v
///         slice 0 -> slice 1 -> ... slice N-1 -> loss       ->: five numbers per row
///
/// Every layer may be in any stage, each slice with its part of weight and bias: "head.slice0.weight" for a named head.
/// Each stage with a slice reads the labels from the data. Nothing else crosses the stages: no logits, no collective
/// operation. The loss is the unsliced head's, with another order of sums; one slice is the unsliced head.
template <int Vocabulary, class... Options>
requires(detail::head_options<Options...>::slices > 1) struct token_head<Vocabulary, Options...> {
  using options = detail::head_options<Options...>;
  static_assert(options::known && options::losses <= 1 && options::cuts == 1,
                "gpipe: token_head<Vocabulary, ...> has three options: no_bias, slices<N>, and one of "
                "softmax_cross_entropy and softmax_cross_entropy_with<...>");
  static_assert(options::slices <= Vocabulary && options::slices <= 1000,
                "gpipe: token_head<Vocabulary, slices<N>>: N must be at most 1000, and at most the number of words");
  static constexpr bool is_scope = true;
  using items = typename detail::sliced_items<Vocabulary, options>::type;
  /// The items with `Each::around<slice>` in place of each slice.
  template <class Each>
  using with_parts = typename detail::sliced_items<Vocabulary, options, Each>::type;
};

}  // namespace gpipe
