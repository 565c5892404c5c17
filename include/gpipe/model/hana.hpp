#pragma once

// The only header that includes Boost.Hana, but for plan/stages/stage_types.hpp. Arithmetic over a model uses arrays;
// Hana holds types, and only in `basic_tuple`: its `tuple` makes nvcc fifty times slower. Planning in one file,
// gpipe_plan.hpp, is for compilers without Boost: there std::tuple holds the types.
#if !defined(GPIPE_WITHOUT_HANA) && !__has_include(<boost/hana/basic_tuple.hpp>)
#error "gpipe needs the headers of Boost.Hana: install libboost-dev (Debian, Ubuntu), or pass Boost's folder with -I"
#endif
#include <cstddef>
#include <tuple>
#include <type_traits>

#include <gpipe/model/structure/items.hpp>

#ifdef GPIPE_WITHOUT_HANA
namespace gpipe::detail {

template <class List>
struct as_tuple;
template <class... Ts>
struct as_tuple<list<Ts...>> {
  using type = std::tuple<Ts...>;
};

template <class List, int Index>
using element_at = std::tuple_element_t<static_cast<std::size_t>(Index), typename as_tuple<List>::type>;

}  // namespace gpipe::detail
#else
#include <boost/hana/at.hpp>
#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/type.hpp>

namespace gpipe::detail {

template <class... Ts>
using hana_tuple = boost::hana::basic_tuple<Ts...>;

template <class List>
struct indexed;
template <class... Ts>
struct indexed<list<Ts...>> {
  static constexpr boost::hana::basic_tuple<boost::hana::type<Ts>...> types{};
};

template <class List, int Index>
using element_at = typename std::remove_cvref_t<decltype(boost::hana::at_c<static_cast<std::size_t>(Index)>(
    indexed<List>::types))>::type;

}  // namespace gpipe::detail
#endif
