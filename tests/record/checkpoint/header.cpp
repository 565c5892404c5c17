#include <gpipe/record/checkpoint/header.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

std::string file_of(const std::string& header, std::size_t data = 0) {
  std::string bytes(8, '\0');
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + header + std::string(data, 'x');
}

std::string refusal(const std::string& file) {
  return complaint([&] { parsed(file, file.size()); });
}

/// A header of one tensor "a".
std::string one(const std::string& type, const std::string& shape, const std::string& offsets,
                const std::string& more = "") {
  return "{\"a\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]" + more +
         "}}";
}

void check_refused(const std::string& file, const char* why) {
  CAPTURE(file.substr(0, 120));
  const std::string message = refusal(file);
  CAPTURE(message);
  CHECK(message.find(why) != std::string::npos);
  CHECK(message.starts_with("f: "));
}

}  // namespace

TEST_CASE("a header is read: entries by bytes and by name, metadata") {
  const std::string file =
      file_of(R"( {"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},"__metadata__":{"k":"v"},)"
              R"("\u00e4\ud83d\ude00":{"dtype":"BF16","shape":[2],"data_offsets":[0,4],"x":[{"y":-1.5e3},null]}} )"
              "\n\t",
              28);
  const auto header = parsed(file, file.size());
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].name == "\u00e4\U0001F600");
  CHECK(header.entries[1].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(header.entries[1].elements() == 6);
  CHECK(header.find("b") == &header.entries[1]);
  CHECK(header.find("c") == nullptr);
  CHECK(header.metadata == safetensors_metadata{{"k", "v"}});
}

TEST_CASE("files of other kinds are named") {
  const std::string rest(200, 'x');
  CHECK(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a" + rest).find("a pointer of git-lfs") !=
        std::string::npos);
  for (const char* begin : {"PK\3\4", "\x80\2\x8a\n", "\x80\4\x95"})
    CHECK(refusal(begin + rest).find("one of PyTorch's torch.save") != std::string::npos);
}

TEST_CASE("a mark decides only where the file cannot be a safetensors file") {
  // "PK\3\4\0\0\0\0" is the length 67,324,752, and "\x80\2\0\0\0\0\0\0" is 640.
  for (const std::size_t length : {std::size_t{640}, std::size_t{67'324'752}}) {
    CAPTURE(length);
    std::string header = "{}";
    header.resize(length, ' ');
    CHECK(refusal(file_of(header)) == "");
    header.insert(0, "x");
    header.pop_back();
    check_refused(file_of(header), length == 640 ? "the header" : "one of PyTorch's torch.save");
  }
}

TEST_CASE("what the format's reference accepts is accepted") {
  for (const std::string& header :
       {std::string("{}"), std::string(" {} \r\n\t"), std::string(R"({"__metadata__":null})"),
        std::string(R"({"__metadata__":{}})"), one("F32", "0,3", "0,0"), one("F32", "0,18446744073709551615,3", "0,0"),
        std::string(R"({"":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}})")})
    CHECK(refusal(file_of(header)) == "");
  CHECK(refusal(file_of(one("F64", "", "0,8"), 8)) == "");  // a scalar
  CHECK(refusal(file_of(one("F4", "2", "0,1"), 1)) == "");  // two in a byte
  CHECK(refusal(file_of(one("F6_E2M3", "4", "0,3"), 3)) == "");
  CHECK(refusal(file_of(one("U8", "1", "0,1", ",\"x\":1"), 1)) == "");  // an extra field
  CHECK(refusal(file_of(R"({"\u0000":{"d\u0074ype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)) == "");
  for (const auto& line : detail::safetensors_types)
    CHECK(refusal(file_of(one(std::string(line.name), "0", "0,0"))) == "");
}

TEST_CASE("what the format's reference refuses is refused") {
  check_refused("", "0 bytes");
  check_refused(std::string(7, '\0'), "7 bytes");
  check_refused(file_of(""), "is missing");
  check_refused(file_of("{}").substr(0, 9), "length 2");
  check_refused(std::string(8, '\xff'), "length 18446744073709551615");
  {
    std::string large(100'000'010, ' ');
    for (unsigned i = 0; i < 8; ++i) large[i] = static_cast<char>(100'000'001ULL >> 8 * i & 0xff);
    check_refused(large, "length 100000001");
  }
  for (const char* text : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4", "\xf0\x80\x80\x80"})
    check_refused(file_of("{\"" + std::string(text) + "\":0}"), "UTF-8");
  for (const char* text :
       {"[]", "null", "\xef\xbb\xbf{}", "{", "{\"a", "{\"a\"", "{\"a\":", "{,}", "{\"a\":1,}", "{a:1}"})
    check_refused(file_of(text), "byte");
  check_refused(file_of("{} x"), "follows");
  check_refused(file_of(std::string("{}\0", 3)), "follows");
  check_refused(file_of(R"({"__metadata__":{"a":1}})"), "missing");
  check_refused(file_of(R"({"a":null})"), "missing");
  check_refused(file_of(R"({"a":{"dtype":"U8","shape":[0]}})"), "needs dtype, shape and data_offsets");
  check_refused(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), "needs dtype");
  check_refused(file_of(R"({"a":{"shape":[0],"data_offsets":[0,0]}})"), "needs dtype");
  check_refused(file_of(one("f32", "0", "0,0")), "unknown");
  check_refused(file_of(one("F33", "0", "0,0")), "unknown");
  check_refused(file_of(one("U8", "-1", "0,0")), "not negative");
  check_refused(file_of(one("U8", "-0", "0,0")), "not negative");
  check_refused(file_of(one("U8", "1.0", "0,1"), 1), "not whole");
  check_refused(file_of(one("U8", "1e0", "0,1"), 1), "not whole");
  check_refused(file_of(one("U8", "01", "0,1"), 1), "begins with 0");
  check_refused(file_of(one("U8", "18446744073709551616", "0,1"), 1), "64 bits");
  check_refused(file_of(one("U8", "1", "0"), 1), "fewer than two");
  check_refused(file_of(one("U8", "1", "0,1,2"), 1), "more than two");
  check_refused(file_of(one("U8", "1", "1,0"), 1), "tensors before end");
  check_refused(file_of(one("U8", "1", "1,2"), 2), "tensors before end");
  check_refused(file_of(one("U8", "2", "0,1"), 1), "need 2");
  check_refused(file_of(one("U8", "4294967296,4294967296", "0,0")), "64 bits");
  check_refused(file_of(one("U8", "18446744073709551615,3,0", "0,0")), "64 bits");
  check_refused(file_of(one("F64", "2305843009213693952", "0,0")), "64 bits");
  check_refused(file_of(one("F4", "1", "0,1"), 1), "does not end at a byte");
  check_refused(file_of(one("U8", "1", "0,1"), 2), "need 1");
  check_refused(file_of(one("U8", "2", "0,2"), 1), "cut off");
  check_refused(file_of("{}", 1), "need 0");
  const auto two = [](const char* first, const char* second) {
    const auto entry = [](const char* name, const char* at) {
      return std::string("\"") + name + R"(":{"dtype":"U8","shape":[2],"data_offsets":[)" + at + "]}";
    };
    return "{" + entry("a", first) + "," + entry("b", second) + "}";
  };
  CHECK(refusal(file_of(two("2,4", "0,2"), 4)) == "");
  check_refused(file_of(two("0,2", "3,5"), 5), "tensors before end at 2");  // a hole
  check_refused(file_of(two("0,2", "1,3"), 3), "tensors before end at 2");  // an overlap
  check_refused(file_of(two("0,2", "0,2"), 2), "tensors before end at 2");  // the same bytes
  check_refused(file_of("{\"a\tb\":0}"), "control character");
  check_refused(file_of(R"({"\x":0})"), "escape");
  check_refused(file_of(R"({"\u12g4":0})"), "four digits");
  for (const char* text : {R"({"\ud800":0})", R"({"\ud800\u0041":0})", R"({"\udc00":0})"})
    check_refused(file_of(text), "surrogate");
  check_refused(file_of(one("U8", "1", "0,1", ",\"x\":" + std::string(130, '[') + std::string(130, ']')), 1), "deeply");
  check_refused(file_of(one("U8", "1", "0,1", ",\"x\":1e999"), 1), "out of range");
  check_refused(file_of(one("U8", "1", "0,1", ",\"x\":tru"), 1), "missing");
}

TEST_CASE("a name or a field twice is refused; the reference keeps the last tensor") {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  check_refused(file_of("{\"a\":" + entry + ",\"a\":" + entry + "}"), "two tensors \"a\"");
  check_refused(file_of("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}"), "two tensors \"a\"");
  check_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "twice");
  check_refused(file_of(R"({"__metadata__":{"a":"","a":""}})"), "twice");
  check_refused(file_of(one("U8", "0", "0,0", ",\"shape\":[0]")), "twice");
  check_refused(file_of(one("U8", "0", "0,0", ",\"dtype\":\"U8\"")), "twice");
}

TEST_CASE("the header's bytes are those of the reference") {
  using enum safetensors_type;
  const auto header = detail::place_tensors(
      {{"h", U8, {3}}, {"c", F32, {0, 4}}, {"b", F32, {2, 3}}, {"\u00e4\"\n\x01\x7f/", BF16, {}}, {"a", F64, {1}}},
      {{"k", "v\t\u00e9"}}, "f");
  CHECK(detail::header_bytes(header, "f") == reference_header());
  CHECK(header.bytes() == 37);
  CHECK(detail::header_bytes(detail::place_tensors({}, {}, "f"), "f") == std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  CHECK(parsed(reference_header(), reference_header().size() + 37).entries.size() == 5);
}

TEST_CASE("a tensor that no file can have is refused before anything is written") {
  using enum safetensors_type;
  const auto refused = [](std::vector<safetensors_tensor> tensors, safetensors_metadata metadata = {}) {
    return complaint([&] { detail::place_tensors(std::move(tensors), std::move(metadata), "f"); });
  };
  CHECK(refused({{"a", F32, {1}}, {"a", F64, {1}}}).find("two tensors \"a\"") != std::string::npos);
  CHECK(refused({{"__metadata__", F32, {1}}}).find("another name") != std::string::npos);
  CHECK(refused({{"\xff", F32, {1}}}).find("UTF-8") != std::string::npos);
  CHECK(refused({}, {{"k", "\xff"}}).find("UTF-8") != std::string::npos);
  CHECK(refused({{"a", F4, {3}}}).find("byte") != std::string::npos);
  std::vector<safetensors_tensor> large;
  for (char name = 'a'; name <= 'i'; ++name) large.push_back({{name}, U8, {(1ULL << 61) - 1}});
  CHECK(refused(large).find("does not fit") != std::string::npos);
  CHECK(refused({{"a", F32, std::vector<std::uint64_t>(65, 1)}}).find("64 dimensions") != std::string::npos);
}
