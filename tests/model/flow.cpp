#include <gpipe/model/flow.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

using a = tensor<float, 1>;
using b = tensor<double, 2>;
using c = tensor<float, 3>;
using x = stash<"x">;
using y = stash<"y">;

template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;

static_assert(same<joined_edges<a, b>, bundle<a, b>>);
static_assert(same<joined_edges<bundle<a, b>, c>, bundle<a, b, c>>);
static_assert(same<joined_edges<bundle<>, bundle<a, b>>, bundle<a, b>>);

static_assert(same<joined_edges<bundle<>, a>, a> && same<joined_edges<bundle<>, bundle<>>, bundle<>>);

// Innermost first: an inner stash of the same name hides the outer one, and a scope mark does not count as a skip.
using hidden = find_skip<x, 0, list<>, skip<x, a, false>, scope_mark, skip<x, b, false>>;
static_assert(hidden::found && hidden::depth == 0 && same<hidden::edge, a>);
using outside = find_skip<y, 0, list<>, skip<x, a, false>, scope_mark, skip<y, b, false>, skip<x, c, true>>;
static_assert(outside::found && outside::depth == 1 && same<outside::edge, b>);
static_assert(
    same<outside::after<c>, flow<bundle<c, b>, skip<x, a, false>, scope_mark, skip<y, b, true>, skip<x, c, true>>>);
static_assert(!find_skip<y, 0, list<>, skip<x, a, false>, scope_mark>::found);
static_assert(!find_skip<residual_stash, 0, list<>, skip<x, a, false>>::found);

// Leaving a scope drops the scope's skips only, and finds the first unread one.
using left = leave_scope<c, skip<y, a, true>, skip<x, a, true>, scope_mark, skip<x, b, false>>;
static_assert(same<left::after, flow<c, skip<x, b, false>>> && same<left::unread, void>);
static_assert(same<leave_scope<c, skip<y, a, true>, skip<x, a, false>, scope_mark>::unread, x>);
static_assert(same<leave_scope<c, skip<y, a, false>, skip<x, a, false>, scope_mark>::unread, y>);
static_assert(same<leave_scope<c, scope_mark>::after, flow<c>>);

}  // namespace

TEST_CASE("skips flow beside the edge") { CHECK(outside::depth == 1); }
