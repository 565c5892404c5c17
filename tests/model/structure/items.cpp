#include <gpipe/model/structure/items.hpp>

#include <doctest/doctest.h>

#include <string_view>
#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

static_assert(std::is_same_v<input<float, 3, 4>::entering, tensor<float, 3, 4>>);
static_assert(std::is_same_v<stash<"x">, stash<"x">>);
static_assert(!std::is_same_v<stash<"x">, stash<"y">>);
static_assert(!std::is_same_v<stash<"x">, stash<"xx">>);
static_assert(std::is_same_v<pop<"x">::popped, stash<"x">>);
static_assert(repeat<3, int, char>::times == 3);
static_assert(stash<"x", "y">::names == 2 && std::is_same_v<stash<"x", "y">::each, list<stash<"x">, stash<"y">>>);
static_assert(std::is_same_v<scope<int, char>::items, list<int, char>>);
static_assert(std::is_same_v<repeat<3, int, char>::items, list<int, char>>);
static_assert(std::is_same_v<residual<int>::items, list<int>>);

struct block : sequence<int, char> {};
static_assert(std::is_same_v<block::items, list<int, char>>);

}  // namespace

TEST_CASE("a stash keeps its name as text") { CHECK(std::string_view(stash<"source">::stashed_as) == "source"); }
