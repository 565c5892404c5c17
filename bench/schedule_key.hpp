#pragma once

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <cctype>
#include <string>

namespace bench {

/// A schedule's name as in results: fill_drain, 1f1b, zb_h1.
inline std::string key_of(gpipe::schedule_kind kind) {
  std::string key = gpipe::name_of(kind);
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

}  // namespace bench
