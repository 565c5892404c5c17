#pragma once

// The only header that includes Boost.Hana, but for plan/stages/stage_types.hpp. Arithmetic over a model uses arrays;
// Hana holds types, and only in `basic_tuple`: its `tuple` makes nvcc fifty times slower.
#if !__has_include(<boost/hana/basic_tuple.hpp>)
#error "gpipe needs the headers of Boost.Hana: install libboost-dev (Debian, Ubuntu), or pass Boost's folder with -I"
#endif
#include <boost/hana/at.hpp>
#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/type.hpp>

#include <gpipe/model/structure/items.hpp>

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
