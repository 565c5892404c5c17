// sanitizers: none

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/sources.hpp"

// A header includes what it uses, and nothing that it does not use: checked for a table of well-known names. A body
// (-inl.hpp) has the includes of its interface, too.

namespace {

using sources::joined;

/// Some names of a header. A name of the standard library is written with `std::`.
struct known_header {
  std::string_view name;
  std::string_view names;  // separated by spaces
  bool complete = true;    // else the header may be included for another name
};

// clang-format off
constexpr known_header table[] = {
    {"algorithm",
     "std::min std::max std::clamp std::sort std::stable_sort std::find std::find_if std::copy std::copy_n "
     "std::copy_if std::fill std::fill_n std::swap_ranges std::equal std::any_of std::all_of std::none_of "
     "std::lower_bound std::upper_bound std::max_element std::min_element std::reverse std::rotate "
     "std::remove_if std::transform std::nth_element std::partial_sort std::unique std::count std::count_if "
     "std::mismatch std::for_each std::generate std::binary_search std::is_sorted std::minmax_element "
     "std::search std::find_if_not", false},
    {"atomic",
     "std::atomic std::atomic_bool std::atomic_thread_fence std::memory_order std::memory_order_relaxed "
     "std::memory_order_acquire std::memory_order_release"},
    {"bit",
     "std::bit_cast std::bit_floor std::bit_ceil std::popcount std::endian std::countr_zero std::countl_zero "
     "std::bit_width std::has_single_bit"},
    {"charconv", "std::from_chars std::to_chars"},
    {"chrono", "std::chrono"},
    {"condition_variable", "std::condition_variable std::condition_variable_any"},
    {"cstdint",
     "std::int8_t std::int16_t std::int32_t std::int64_t std::uint8_t std::uint16_t std::uint32_t "
     "std::uint64_t std::uintptr_t INT64_MAX INT64_MIN UINT64_MAX INT32_MAX INT32_MIN UINT32_MAX", false},
    {"cstring",
     "std::memcpy std::memset std::memcmp std::memmove std::memchr std::strerror std::strlen std::strcmp "
     "std::strncmp", false},
    {"deque", "std::deque"},
    {"filesystem", "std::filesystem"},
    {"fstream", "std::ifstream std::ofstream std::fstream"},
    {"functional",
     "std::function std::less std::greater std::plus std::minus std::multiplies std::invoke std::ref "
     "std::reference_wrapper", false},
    {"iostream", "std::cout std::cerr std::cin std::clog"},
    {"limits", "std::numeric_limits"},
    {"map", "std::map std::multimap"},
    {"memory",
     "std::unique_ptr std::shared_ptr std::weak_ptr std::make_unique std::make_shared "
     "std::make_unique_for_overwrite std::addressof std::construct_at std::destroy_at std::allocator", false},
    {"mutex",
     "std::mutex std::lock_guard std::unique_lock std::scoped_lock std::once_flag std::call_once "
     "std::recursive_mutex"},
    {"numeric",
     "std::accumulate std::iota std::gcd std::lcm std::partial_sum std::reduce std::inner_product "
     "std::midpoint"},
    {"optional", "std::optional std::nullopt std::make_optional"},
    {"set", "std::set std::multiset"},
    {"span", "std::span std::as_bytes std::as_writable_bytes"},
    {"sstream", "std::stringstream std::ostringstream std::istringstream"},
    {"string", "std::string std::to_string std::getline std::char_traits"},
    {"string_view", "std::string_view"},
    {"system_error", "std::error_code std::errc std::system_error std::error_category std::generic_category"},
    {"thread", "std::thread std::this_thread std::jthread"},
    {"tuple",
     "std::tuple std::tie std::make_tuple std::apply std::ignore std::forward_as_tuple std::tuple_size "
     "std::get", false},
    {"utility",
     "std::move std::forward std::exchange std::pair std::swap std::integer_sequence "
     "std::make_integer_sequence std::declval std::index_sequence std::as_const", false},
    {"vector", "std::vector"},
    {"gpipe/core/clock.hpp", "now_ns"},
    {"gpipe/core/included.hpp", "included", false},
    {"gpipe/core/text/quantity.hpp", "exact_text", false},
    {"gpipe/core/text/quoted.hpp", "quoted"},
    {"gpipe/core/zeroed_array.hpp", "zeroed_array"},
    {"gpipe/plan/memory/layout.hpp", "lay_out memory_of count_on"},
    {"gpipe/plan/memory/lifetime.hpp", "lifetimes"},
    {"gpipe/plan/memory/memory_kind.hpp", "memory_kind stage_memory memory_block memory_kinds"},
    {"gpipe/plan/memory/requirements.hpp", "memory_requirements slots_for outgoing_slots packed_weights stage_plan"},
    {"gpipe/plan/options/options.hpp", "plan_option_list", false},
    {"gpipe/plan/options/plan_options.hpp", "plan_options no_memory_limit"},
    {"gpipe/plan/program/lower.hpp", "send_mode transfer_queue"},
    {"gpipe/plan/schedule/any_schedule.hpp",
     "schedule_choice schedule_kinds with_schedule parse_schedule stages_per_worker", false},
    {"gpipe/plan/schedule/contract/action.hpp", "instruction action_kind program_view is_send is_receive", false},
    {"gpipe/plan/stages/cut.hpp", "stage_link find_links chained_from require_links", false},
    {"gpipe/plan/stages/stage_view.hpp", "stage_view"},
    {"gpipe/record/file/read_file.hpp", "read_file file_stream mapped_file"},
    {"gpipe/record/file/write_file.hpp", "write_file require_writable is_same_file write_whole replace_file"},
    {"gpipe/record/stage_report.hpp", "measured_profile", false},
    {"gpipe/plan/step_plan.hpp", "step_plan link_slots stage_slots plan_maker"},
    {"gpipe/record/trace.hpp", "recorder trace_event"},
};
// clang-format on

/// The identifiers of a text, `std::` with the next; and the headers that it includes. A class that the text itself
/// declares needs no include.
struct words_of {
  std::set<std::string> names, declared, includes;

  explicit words_of(const std::string& text) {
    for (const std::string& line : sources::lines_of(text))
      if (line.starts_with("#include <")) includes.insert(line.substr(10, line.find('>') - 10));
    const std::vector<std::string> tokens = sources::tokens_of(text);
    const auto token = [&](std::size_t i) -> std::string_view {
      return i < tokens.size() ? std::string_view(tokens[i]) : "";
    };
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if ((token(i) == "struct" || token(i) == "class") && token(i + 2) == ";" && (i == 0 || token(i - 1) != "friend"))
        declared.insert(tokens[++i]);
      else if (token(i) == "std" && token(i + 1) == ":") names.insert("std::" + tokens[i += 3]);
      else names.insert(tokens[i]);
    }
  }
};

using all_words = std::map<std::string, words_of>;

all_words read_headers() {
  all_words all;
  for (const auto& file : sources::files_of("include/gpipe", {".hpp"})) {
    const std::string name = sources::name_of(file, "include");
    // A part to include (gpipe/train.hpp) uses nothing itself.
    if (name.find('/', 6) != name.npos) all.emplace(name, words_of(sources::read(file)));
  }
  return all;
}

bool uses(const words_of& header, const known_header& known, bool but_declared) {
  std::istringstream names{std::string(known.names)};
  for (std::string name; names >> name;)
    if (header.names.contains(name) && !(but_declared && header.declared.contains(name))) return true;
  return false;
}

/// "a.hpp uses std::span without <span>", "a.hpp includes <span> without use".
std::vector<std::string> faults(const all_words& headers) {
  std::vector<std::string> found;
  for (const auto& [name, words] : headers) {
    std::set<std::string> includes = words.includes;
    std::string interface;
    if (name.ends_with("-inl.hpp")) {
      interface = name.substr(0, name.size() - 8) + ".hpp";
      const auto its = headers.find(interface);
      if (its != headers.end()) includes.insert(its->second.includes.begin(), its->second.includes.end());
    }
    for (const known_header& known : table) {
      const std::string header(known.name);
      if (name == header || interface == header) continue;
      if (uses(words, known, true) && !includes.contains(header))
        found.push_back(name + " uses names of <" + header + "> without it");
      if (known.complete && words.includes.contains(header) && !uses(words, known, false))
        found.push_back(name + " includes <" + header + "> without use");
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a header includes what it uses") {
  const all_words headers = read_headers();
  CHECK(headers.size() > 400);
  CHECK(joined(faults(headers)) == "");
}

TEST_CASE("the reader sees what is wrong") {
  const auto planted = [](const std::string& text) { return faults({{"gpipe/core/a.hpp", words_of(text)}}); };
  CHECK(planted("#include <span>\nvoid f(std::span<int>);  // std::vector\n").empty());
  CHECK(planted("void f(std::span<int>);\n") ==
        std::vector<std::string>{"gpipe/core/a.hpp uses names of <span> without it"});
  CHECK(planted("#include <fstream>\nconst char* text = \"std::ifstream\";\n") ==
        std::vector<std::string>{"gpipe/core/a.hpp includes <fstream> without use"});
  CHECK(planted("#include <gpipe/plan/program/lower.hpp>\n#include <gpipe/plan/schedule/contract/action.hpp>\n"
                "void f(const instruction&);\n") ==
        std::vector<std::string>{"gpipe/core/a.hpp includes <gpipe/plan/program/lower.hpp> without use"});
  CHECK(planted("class stage_view;\nvoid f(const stage_view&);\n").empty());
  CHECK(planted("/* std::vector\n std::map */ int x = 1'000;\n").empty());
}
