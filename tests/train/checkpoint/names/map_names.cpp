#include <gpipe/train/checkpoint/names/map_names.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

std::vector<std::string> stars_of(const char* pattern, const char* name) {
  std::vector<std::string_view> stars;
  if (!find_stars(pattern, name, stars)) {
    CHECK(stars.empty());
    return {"no"};
  }
  return {stars.begin(), stars.end()};
}

stored_array array(const char* name, shape extents, std::size_t at = 0) {
  stored_array one;
  one.name = name, one.extents = extents;
  one.location = {.offset = at, .bytes = extents.size() * sizeof(float)};
  return one;
}

/// "name 4x8 @32 t" of each.
std::string text_of(const std::vector<stored_array>& arrays) {
  std::string text;
  for (const stored_array& one : arrays) {
    text += one.name + ' ';
    for (int d = 0; d < one.extents.rank; ++d) text += (d > 0 ? "x" : "") + std::to_string(one.extents.extents[d]);
    text += " @" + std::to_string(one.location.offset) + (one.order.same() ? "; " : " t; ");
  }
  return text;
}

std::string refusal(const name_map& names) {
  try {
    in_file({array("0.weight", {6, 4}), array("0.bias", {6})}, names, "");
  } catch (const error& found) {
    return found.wrong();
  }
  return "";
}

}  // namespace

TEST_CASE("a star is any text without a dot") {
  using texts = std::vector<std::string>;
  CHECK(stars_of("h.*.ln", "h.12.ln") == texts{"12"});
  CHECK(stars_of("*.q*.weight", "a.q_proj.weight") == texts{"a", "_proj"});
  CHECK(stars_of("*a*b", "xaab") == texts{"x", "a"});
  CHECK(stars_of("a", "a") == texts{});
  for (const char* name : {"h..ln", "h.1.2.ln", "h.1.lns", "g.1.ln", "h.1.l", ""})
    CHECK(stars_of("h.*.ln", name) == texts{"no"});
}

TEST_CASE("arrays get the names, layouts and parts of the first rule for them") {
  const name_map names{
      .rules = {{.file = {"b.*.w"}, .model = "h.*.weight", .transposed = true},
                {.file = {"never.*"}, .model = "h.*.weight"},
                {.file = {"q.*", "k.*", "v.*"}, .model = "*.in"},
                {.file = {"k.*.t", "v.*.t"}, .model = "*.kv", .transposed = true, .row_shares = {2, 1}},
                {.file = {"*.conv"}, .model = "*.window", .transposed = true},
                {.file = {"head"}, .model = "out", .prefixed = false}}};
  CHECK(text_of(in_file(
            {array("h.3.weight", {4, 8}), array("1.in", {6, 2}, 64), array("2.in", {3}), array("2.kv", {6, 5}, 128),
             array("3.window", {2, 3, 4, 5}), array("out", {2}), array("rest", {7, 7})},
            names, "p.")) ==
        "p.b.3.w 8x4 @0 t; p.q.1 2x2 @64; p.k.1 2x2 @80; p.v.1 2x2 @96; p.q.2 1 @0; p.k.2 1 @4; p.v.2 1 @8; "
        "p.k.2.t 5x4 @128 t; p.v.2.t 5x2 @208 t; p.3.conv 5x4x2x3 @0 t; head 2 @0; p.rest 7x7 @0; ");
}

TEST_CASE("wrong rules are refused") {
  CHECK(refusal({}) == "");
  CHECK(refusal({.rules = {{.file = {}, .model = "0.bias"}}}) == "the rule for \"0.bias\" has no name in the file");
  CHECK(refusal({.rules = {{.file = {"a"}, .model = "*.bias"}}}) == "the name \"a\" has 0 stars, but \"*.bias\" has 1");
  CHECK(refusal({.rules = {{.file = {"a.*", "b.*"}, .model = "*.bias", .row_shares = {1}}}}) ==
        "the rule for \"*.bias\" has 2 names and 1 row_shares");
  CHECK(refusal({.rules = {{.file = {"a.*", "b.*"}, .model = "*.bias", .row_shares = {1, 0}}}}) ==
        "the rule for \"*.bias\" has a row_share of 0");
  CHECK(refusal({.rules = {{.file = {"a.*", "b.*"}, .model = "*.bias", .row_shares = {3, 1}}}}) ==
        "\"0.bias\" has 6 rows, which are not 2 tensors with these row_shares");
  CHECK(refusal({.rules = {{.file = {"a.*"}, .model = "*.bias", .transposed = true}}}) ==
        "the rule for \"*.bias\" is transposed, but \"0.bias\" has 1 dimension");
  CHECK(refusal({.rules = {{.file = {"a.*", "b.*"}, .model = "*.weight", .transposed = true}}}) == "");
  CHECK(refusal({.rules = {{.file = {"0.weight"}, .model = "0.bias"}}}) ==
        "two arrays of the model have the name \"0.weight\" in the file");
}

TEST_CASE("a load takes the longest prefix that a name of the file has, and a save the first") {
  const name_map names{.prefixes = {"", "transformer.", "model.transformer."}};
  CHECK(prefix_of({{"wte", {}}, {"transformer.h", {}}}, names) == "transformer.");
  CHECK(prefix_of({{"model.transformer.h", {}}}, names) == "model.transformer.");
  CHECK(prefix_of({{"wte", {}}}, names) == "");
  // The file's names have both, and the longest wins wherever it stands in the list and in the file.
  for (const std::vector<std::string>& prefixes : {std::vector<std::string>{"", "a.", "a.b."}, {"a.b.", "a.", ""}})
    for (const std::vector<found_array>& file :
         {std::vector<found_array>{{"a.w", {}}, {"a.b.w", {}}}, {{"a.b.w", {}}, {"a.w", {}}}})
      CHECK(prefix_of(file, {.prefixes = prefixes}) == "a.b.");
  CHECK(prefix_of({{"transformer.h", {}}}, {}) == "");
  CHECK(saved_prefix(names) == "");
  CHECK(saved_prefix({.prefixes = {"p.", ""}}) == "p.");
  CHECK(saved_prefix({}) == "");
}

TEST_CASE("ignored tensors may be in the file, and second names of tied layers may be missing") {
  std::vector<stored_array> wanted{array("a", {1}), array("b", {1})};
  wanted[1].copy = true;
  const name_map names{.ignored = {"h.*.mask"}, .tied_once = true};
  load_report report;
  report.missing = {"a", "b"};
  report.unexpected = {"p.h.1.mask", "h.2.mask", "h.mask", "q.h.1.mask"};
  forgive_names(report, wanted, names, "p.");
  CHECK(report.missing == std::vector<std::string>{"a"});
  CHECK(report.unexpected == std::vector<std::string>{"h.mask", "q.h.1.mask"});
}

TEST_CASE("different maps have different hashes") {
  const name_rule rule{.file = {"a", "b"}, .model = "c"};
  std::vector<name_map> maps(9);
  for (std::size_t i = 1; i < maps.size(); ++i) maps[i].rules = {rule};
  maps[2].rules[0].file = {"ab"};
  maps[3].rules[0].transposed = true;
  maps[4].rules[0].row_shares = {1, 2};
  maps[5].rules[0].prefixed = false;
  maps[6].ignored = {"x"};
  maps[7].prefixes = {"x"};
  maps[8].tied_once = true;
  for (std::size_t i = 0; i < maps.size(); ++i)
    for (std::size_t k = 0; k < maps.size(); ++k) {
      CHECK((maps[i] == maps[k]) == (i == k));
      CHECK((hash_of(maps[i]) == hash_of(maps[k])) == (i == k));
    }
}

TEST_CASE("arrays match by name and shape") {
  std::vector<stored_array> wanted(4);
  const char* const names[] = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i < 4; ++i) wanted[i].name = names[i], wanted[i].extents = {2, 3};
  const std::uint64_t same[] = {2, 3}, other[] = {3, 2}, longer[] = {2, 3, 1};
  const std::vector<found_array> file{{"c", other}, {"x", same}, {"a", same}, {"d", longer}};
  const array_match match = match_arrays(wanted, file);
  CHECK(match.found == std::vector<std::ptrdiff_t>{2, -1, -1, -1});
  CHECK(match.report.loaded == std::vector<std::string>{"a"});
  CHECK(match.report.missing == std::vector<std::string>{"b"});
  CHECK(match.report.unexpected == std::vector<std::string>{"x"});
  CHECK(match.report.misshaped ==
        std::vector<std::string>{"c (file 3 x 2, model 2 x 3)", "d (file 2 x 3 x 1, model 2 x 3)"});
  CHECK(!match.exact());
}

TEST_CASE("an error lists at most ten names of each kind") {
  load_report report;
  for (int i = 0; i < 12; ++i) report.missing.push_back("m" + std::to_string(i));
  report.unexpected = {"u"};
  try {
    throw_misfit(report, "file");
    FAIL("it throws");
  } catch (const error& found) {
    CHECK(found.wrong() ==
          "the file does not fit the model: 12 missing: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, ...; "
          "1 unexpected: u");
    CHECK(found.where().file == "file");
  }
}

TEST_CASE("an error quotes a name that is not plain text") {
  load_report report;
  report.unexpected = {std::string("a\0b", 3), "c\n", std::string(1000, 'x')};
  try {
    throw_misfit(report, "file");
    FAIL("it throws");
  } catch (const error& found) {
    CHECK(found.wrong().starts_with("the file does not fit the model: 3 unexpected: \"a\\x00b\", \"c\\n\", \"xxx"));
    CHECK(found.wrong().size() < 400);
  }
}

TEST_CASE("PyTorch's count of batches may be in the file") {
  load_report report;
  report.unexpected = {"1.num_batches_tracked", "num_batches_tracked", "1.other"};
  forgive_counters(report);
  CHECK(report.unexpected == std::vector<std::string>{"1.other"});
}
