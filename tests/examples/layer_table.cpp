#include "../examples/layer_table.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>

using example::read_layer_table, example::table_layer;

namespace {

const std::string header = "name,forward_ns,backward_ns,parameter_bytes,activation_bytes\n";

/// A file of this text while it is in scope.
struct written {
  std::string path;
  explicit written(const std::string& text) : path("layer_table_test.csv") {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~written() { std::remove(path.c_str()); }
};

/// The error's text without the path.
std::string error_of(const std::string& text) {
  const written file(text);
  try {
    read_layer_table(file.path);
  } catch (const gpipe::error& failure) {
    const std::string what = failure.what();
    return what.starts_with(file.path) ? what.substr(file.path.size()) : what;
  }
  return "";
}
bool rejects(const std::string& text, const std::string& begin) { return error_of(text).starts_with(begin); }

}  // namespace

TEST_CASE("a table is read, with or without its last column, in any order of columns and either end of line") {
  const written five(header + "a, 1 ,2,3,4\r\nb,5,6,7,8");
  std::vector<table_layer> layers = read_layer_table(five.path);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "a");
  CHECK(layers[0].forward_ns == 1);
  CHECK(layers[1].activation_bytes == 8);
  CHECK(layers[1].output_bytes == 0);
  const written six("output_bytes,name,forward_ns,backward_ns,activation_bytes,parameter_bytes\n9,a,1,2,4,3\n");
  layers = read_layer_table(six.path);
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].output_bytes == 9);
  CHECK(layers[0].parameter_bytes == 3);
}

TEST_CASE("a malformed line is rejected with its number") {
  CHECK(rejects("", ": is empty"));
  CHECK(rejects(header, ": has no layers"));
  CHECK(rejects("a,1,2,3,4\n", ":1: the header is missing"));
  CHECK(rejects("name,forward_ns\na,1\n", ":1: column \"backward_ns\" is missing"));
  CHECK(rejects("name," + header, ":1: column \"name\" appears twice"));
  CHECK(rejects("colour," + header, ":1: unknown column \"colour\""));
  CHECK(rejects(header + "a,1,2,3,4\nb,1,2,3\n", ":3: has 4 columns, not 5"));
  CHECK(rejects(header + "a,1,2,3,4,5\n", ":2: has 6 columns, not 5"));
  CHECK(rejects(header + "# a comment\n", ":2: has 1 column, not 5"));
  CHECK(rejects(header + "a,1,2,3,4\n\nb,1,2,3,4\n", ":3: is empty"));
  CHECK(rejects(header + "a,1,x,3,4\n", ":2: backward_ns: \"x\" is not a whole number"));
  CHECK(rejects(header + "a,1.5,2,3,4\n", ":2: forward_ns: \"1.5\" is not a whole number"));
  CHECK(rejects(header + "a,,2,3,4\n", ":2: forward_ns: \"\" is not a whole number"));
  CHECK(rejects(header + "a,1,2,-3,4\n", ":2: parameter_bytes: \"-3\" is negative"));
  CHECK(rejects(header + "a,1,2,3,9223372036854775808\n",
                ":2: activation_bytes: \"9223372036854775808\" exceeds 64 bits"));
  CHECK(rejects(header + "a,9223372036854775807,2,3,4\nb,1,2,3,4\n", ":3: forward_ns: \"1\" makes the sum"));
  CHECK(rejects(header + ",1,2,3,4\n", ":2: the layer has no name"));
  CHECK(rejects(header + std::string("a,1,2,3,\0\n", 10), ":2: is binary"));
}

TEST_CASE("a path that is not a file is rejected") {
  CHECK_THROWS_WITH_AS(read_layer_table("."), doctest::Contains("Is a directory"), gpipe::error);
  CHECK_THROWS_WITH_AS(read_layer_table("no such table.csv"), doctest::Contains("No such file"), gpipe::error);
}
