// sanitizers: address

#include <gpipe/tools/data/csv.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "support/checkpoints.hpp"

using namespace gpipe;

namespace {

/// A file of this text while it is in scope.
struct written : checkpoints::memory_folder {
  std::string file = *this / "csv_test.csv";
  explicit written(const std::string& text) : memory_folder("csv") { checkpoints::put(file, text); }
};

dataset read(const std::string& text) { return read_csv(written(text).file, 2, 10); }
dataset read(const std::string& text, const std::vector<csv_field>& fields, const csv_options& how = {}) {
  return read_csv(written(text).file, fields, how);
}

template <class T>
std::vector<T> all_of(const dataset& data, const char* name) {
  const auto found = data.field<T>(name);
  return {found.begin(), found.end()};
}

void rejects(const char* what, const std::function<void()>& call) {
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
}

}  // namespace

TEST_CASE("columns become fields: numbers, several targets, labels, and some that are skipped") {
  const dataset data = read("id;x;kind;a;b\nann;1.5;2;-1;2e3\r\nbob; 3 ;0; 4;.5\n",
                            {{"", 1}, {"inputs", 1}, {.name = "kind", .classes = 3}, {"targets", 2}},
                            {.separator = ';', .header = true});
  CHECK(data.samples() == 2);
  CHECK(all_of<float>(data, "inputs") == std::vector<float>{1.5F, 3});
  CHECK(all_of<std::int32_t>(data, "kind") == std::vector<std::int32_t>{2, 0});
  CHECK(all_of<float>(data, "targets") == std::vector<float>{-1, 2000, 4, 0.5F});
  const dataset last = read("1,\n2,x\n", {{"inputs", 1}, {"", 1}});
  CHECK(last.samples() == 2);
  CHECK(all_of<float>(read("7", {{"inputs", 1}}), "inputs") == std::vector<float>{7});
  CHECK(std::isinf(all_of<float>(read("inf", {{"inputs", 1}}), "inputs")[0]));
}

TEST_CASE("an error has the file, the line and the column") {
  rejects("csv_test.csv:2: column 2: \"x\" is not a number; give 2 numbers and a label, separated by commas",
          [] { read("1,2,3\n1,x,3\n"); });
  rejects("csv_test.csv:1: has 2 columns, not 3", [] { read("1,2\n"); });
  rejects("csv_test.csv:1: column 3: \"\" is not a label: it is missing", [] { read("1,2,\n"); });
  rejects("csv_test.csv:1: has more than 3 columns", [] { read("1,2,3,4\n"); });
  rejects("column 3: \"2.5\" is not a label", [] { read("1,2,2.5\n"); });
  rejects("label 10 is out of range; choose labels in 0 ... 9", [] { read("1,2,10\n"); });
  rejects("label -1 is out of range", [] { read("1,2,-1\n"); });
  rejects("column 2: \"\" is not a number", [] { read("1,,3\n"); });
  rejects("column 1: \"1 2\" is not a number", [] { read("1 2,2,3\n"); });
  rejects("csv_test.csv:2: has 0 columns, not 3", [] { read("1,2,3\n\n1,2,3\n"); });
  rejects("csv_test.csv:1: is binary", [] { read(std::string("1,\0,3\n", 6)); });
  rejects("csv_test.csv: is empty", [] { read(""); });
  rejects("csv_test.csv: is empty", [] { read("\n\n"); });
  rejects("is empty", [] { read("a,b\n", {{"inputs", 2}}, {.header = true}); });
  rejects("No such file or directory", [] { read_csv("csv_missing.csv", 2, 10); });
  rejects("Is a directory", [] { read_csv(".", 2, 10); });
}

TEST_CASE("fields that make no sense are refused before the file is read") {
  rejects("columns is 0; choose at least 1", [] { read_csv("x", {{"inputs", 0}}); });
  rejects("classes is -1", [] { read_csv("x", {{.name = "labels", .classes = -1}}); });
  rejects("columns is 2 for the labels \"labels\"", [] { read_csv("x", {{"labels", 2, 10}}); });
  rejects("no field has a name", [] { read_csv("x", {{"", 3}}); });
  rejects("classes is 0", [] { read_csv("x", 3, 0); });
}

TEST_CASE("a byte-order mark is no part of the first number") {
  CHECK(all_of<float>(read("\xef\xbb\xbf"
                           "1.5,2,3\n4,5,6\n"),
                      "inputs") == std::vector<float>{1.5F, 2, 4, 5});
  CHECK_THROWS_AS(read("1,2,3\n\xef\xbb\xbf"
                       "4,5,6\n"),
                  gpipe::error);
}

TEST_CASE("a number too near to 0 is 0, a number too large is an error") {
  CHECK(all_of<float>(read("1e-60,-1e-400,3\n"), "inputs") == std::vector<float>{0, 0});
  CHECK_THROWS_WITH_AS(read("1e60,1,3\n"), doctest::Contains("\"1e60\" does not fit a float"), gpipe::error);
  CHECK_THROWS_WITH_AS(read("1e400,1,3\n"), doctest::Contains("does not fit a float"), gpipe::error);
  CHECK_THROWS_WITH_AS(read("1,1,99999999999\n"), doctest::Contains("does not fit a label"), gpipe::error);
}

TEST_CASE("a line without end is refused, and a long or a strange word is cut in the message") {
  CHECK_THROWS_WITH_AS(read(std::string(gpipe::detail::longest_csv_line + 1, '1')),
                       doctest::Contains("has more than 1048576"), gpipe::error);
  try {
    read("1," + std::string(5000, 'x') + "\x1b,3\n");
    CHECK(false);
  } catch (const gpipe::error& e) {
    CHECK(e.wrong().size() < 130);
  }
  CHECK_THROWS_WITH_AS(read("1,a\x1b[2J,3\n"), doctest::Contains("\"a\\x1b[2J\" is not a number"), gpipe::error);
#if !defined(_WIN32)
  CHECK_THROWS_AS(read_csv("/dev/zero", 2, 10), gpipe::error);
#endif
}

TEST_CASE("columns are found by the names of the header, in the order of the field") {
  const std::vector<csv_field> fields{{.name = "inputs", .from = {"income", "age, years"}},
                                      {.name = "labels", .classes = 3, .from = {"kind"}},
                                      {.name = "targets", .from = {"price"}}};
  const dataset data =
      read(",\"age, years\",income,colour,kind,price\r\n0,20,1.5,\"green, dark\",2,7\r\n1,30,2.5,red,0,8\r\n", fields,
           {.header = true});
  CHECK(data.samples() == 2);
  CHECK(all_of<float>(data, "inputs") == std::vector<float>{1.5F, 20, 2.5F, 30});
  CHECK(all_of<std::int32_t>(data, "labels") == std::vector<std::int32_t>{2, 0});
  CHECK(all_of<float>(data, "targets") == std::vector<float>{7, 8});

  rejects("csv_test.csv:1: the header has no column \"agee\"; did you mean \"age\"?",
          [] { read("age,price\n1,2\n", {{.name = "inputs", .from = {"agee"}}}, {.header = true}); });
  rejects("the header has no column \"height\"; choose among \"age\", \"price\"",
          [] { read("age,price\n1,2\n", {{.name = "inputs", .from = {"height"}}}, {.header = true}); });
  rejects("the header has two columns \"a\"",
          [] { read("a,a\n1,2\n", {{.name = "inputs", .from = {"a"}}}, {.header = true}); });
  rejects("the column \"a\" is named twice", [] {
    read("a,b\n1,2\n", {{.name = "inputs", .from = {"a", "b", "a"}}}, {.header = true});
  });
  rejects("a field has .from, and .header is false", [] { read("a\n1\n", {{.name = "inputs", .from = {"a"}}}); });
  rejects("the field \"targets\" has no .from", [] {
    read("a,b\n1,2\n", {{.name = "inputs", .from = {"a"}}, {"targets", 1}}, {.header = true});
  });
  rejects("columns is 2 for the labels \"labels\"", [] {
    read("a,b\n1,2\n", {{.name = "labels", .classes = 3, .from = {"a", "b"}}}, {.header = true});
  });
}

TEST_CASE("values in quotes are read as RFC 4180 describes") {
  const std::vector<csv_field> text_and_number{{"", 1}, {"inputs", 1}};
  CHECK(all_of<float>(read("\"a, \"\"b\"\"\",1\n", text_and_number), "inputs") == std::vector<float>{1});
  CHECK(all_of<float>(read("\"two\nlines\",1\r\nx,\"2\"\r\n", text_and_number), "inputs") == std::vector<float>{1, 2});
  CHECK(all_of<float>(read(" \"1.5\" , \"2\",3\n"), "inputs") == std::vector<float>{1.5F, 2});
  CHECK(all_of<float>(read("5\" tube,1\n", text_and_number), "inputs") == std::vector<float>{1});  // a quote inside
  rejects("csv_test.csv:2: a quote is not closed", [&] { read("x,1\n\"y,2\nz,3\n", text_and_number); });
  // The line of an error counts the lines of a quoted text.
  rejects("csv_test.csv:3: column 2", [&] { read("\"two\nlines\",1\nx,y\n", text_and_number); });
}

TEST_CASE("missing values are refused, left out with their row, or filled") {
  const std::vector<csv_field> fields{{"inputs", 2}, {"targets", 1}};
  for (const char* missing : {"", "NaN", "nan", "-nan", "NA", "n/a", "null", "None", "\"\""}) {
    CAPTURE(missing);
    const std::string text = std::string("1,2,3\n4,") + missing + ",6\n7,8,9\n";
    rejects("csv_test.csv:2: column 2: ", [&] { read(text, fields); });
    rejects("is not a number: it is missing", [&] { read(text, fields); });
    const dataset left = read(text, fields, {.missing = missing_values::drop_row});
    CHECK(all_of<float>(left, "inputs") == std::vector<float>{1, 2, 7, 8});
    CHECK(all_of<float>(left, "targets") == std::vector<float>{3, 9});
    const dataset filled = read(text, fields, {.missing = missing_values::fill, .fill = -1});
    CHECK(all_of<float>(filled, "inputs") == std::vector<float>{1, 2, 4, -1, 7, 8});
  }
  const std::vector<csv_field> labelled{{"inputs", 1}, {.name = "labels", .classes = 3}};
  rejects("is not a label: it is missing", [&] { read("1,\n", labelled, {.missing = missing_values::fill}); });
  CHECK(read("1,\n2,1\n", labelled, {.missing = missing_values::drop_row}).samples() == 1);
  rejects("has a missing value in every row", [&] { read("1,\n", labelled, {.missing = missing_values::drop_row}); });
  // A column that is skipped may lack values.
  const std::vector<csv_field> skipping{{"inputs", 1}, {"", 1}, {"targets", 1}};
  CHECK(read("1,,3\n", skipping).samples() == 1);
  CHECK(read("1,,3\n2,,\n", skipping, {.missing = missing_values::drop_row}).samples() == 1);
}

TEST_CASE("lines at the end may be blank, and lines between may not") {
  CHECK(read("1,2,3\n\n\r\n  \n").samples() == 1);
  rejects("csv_test.csv:2: has 0 columns, not 3", [] { read("1,2,3\n\n\n4,5,6\n"); });
}

TEST_CASE("a number may have a plus sign") {
  CHECK(all_of<float>(read("+1,+.5,+3\n"), "inputs") == std::vector<float>{1, 0.5F});
  rejects("\"++1\" is not a number", [] { read("++1,2,3\n"); });
  rejects("\"+-1\" is not a number", [] { read("+-1,2,3\n"); });
}

TEST_CASE("the error of a first line asks for .header, of another separator for that, of a comma for a point") {
  rejects("csv_test.csv:1: column 1: \"a\" is not a number; if line 1 is a header, give .header = true",
          [] { read("a,b,c\n1,2,3\n"); });
  rejects("give the .separator of the file", [] { read("1;2;3\n"); });
  rejects("write numbers with a point", [] { read("1,5;2;3\n", {{"inputs", 3}}, {.separator = ';'}); });
}
