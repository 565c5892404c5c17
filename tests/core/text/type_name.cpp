// compiled: alone

#include <gpipe/core/text/type_name.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>

namespace gpipe {
template <int>
struct wide {};
}  // namespace gpipe

namespace mine {
struct layer {};
}  // namespace mine

using namespace gpipe;
using namespace gpipe::detail;

static_assert(type_name<int> == "int" && type_name<float> == "float");
static_assert(type_name<wide<512>> == "wide<512>");
static_assert(type_name<mine::layer> == "mine::layer");

TEST_CASE("a type's name can be used as text") { CHECK(type_name<wide<-1>> == "wide<-1>"); }

namespace {

constexpr short_name made = [] {
  short_name name;
  name << "a<" << 0 << ", " << -17 << ", " << 2048 << ">";
  return name;
}();
static_assert(std::string_view(made.letters, made.size) == "a<0, -17, 2048>");

using map = feature_map<float, 4, 8, 8>;
static_assert(bound<conv2d<64, 3>, map>::name == "conv2d<64, 3>");
static_assert(bound<conv2d<64, height_width{1, 7}, conv_options{.stride = {1, 2}, .groups = 2}>, map>::name ==
              "conv2d<64, 1 x 7, stride 1 x 2, groups 2>");
static_assert(bound<max_pool<3, pool_options{.stride = 2}>, map>::name == "max_pool<3, stride 2>");

}  // namespace

TEST_CASE("a name that is too long is cut") {
  short_name name;
  for (int i = 0; i < 50; ++i) name << "abc";
  CHECK(name.size == sizeof name.letters);
}
