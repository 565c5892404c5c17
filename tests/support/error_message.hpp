#pragma once

#include <string>
#include <utility>

#include <gpipe/core/error.hpp>

/// The text of the error with which a call ends; empty if it throws none.
template <class Call>
std::string error_message(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const gpipe::error& refused) {
    return refused.what();
  }
  return "";
}
