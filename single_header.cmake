# Makes gpipe_plan.hpp: planning alone, <gpipe/plan.hpp>, in one file for an online compiler. The file needs a C++20
# compiler and its standard library, and nothing else.
#     cmake [-D TO=<build/gpipe_plan.hpp>] -P single_header.cmake
#
# Each header stands once in the file, behind all headers that it includes, and their order does not change. The
# standard headers stand at the top. A comment that fills its line is left out, so that the file keeps below a megabyte.
# std::tuple takes the place of Boost.Hana.
cmake_minimum_required(VERSION 3.25)

set(root ${CMAKE_CURRENT_LIST_DIR})
set(TO ${root}/build/gpipe_plan.hpp CACHE FILEPATH "The file to write")

# Finds the order of the headers, and the standard headers. An -inl.hpp stands behind its header, which includes it last.
function(order header)
  get_property(seen GLOBAL PROPERTY seen)
  if(header IN_LIST seen)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY seen ${header})
  file(STRINGS ${root}/include/${header} lines REGEX "^#include <")
  list(TRANSFORM lines REPLACE "^#include <([^>]*)>.*$" "\\1")
  set(inl ${lines})
  list(FILTER inl INCLUDE REGEX "^gpipe/.*-inl\\.hpp$")
  list(REMOVE_ITEM lines ${inl})
  set(standard ${lines})
  list(FILTER standard EXCLUDE REGEX "^(gpipe|boost)/")
  set_property(GLOBAL APPEND PROPERTY standard ${standard})
  list(FILTER lines INCLUDE REGEX "^gpipe/")
  foreach(name IN LISTS lines)
    order(${name})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ordered ${header})
  foreach(name IN LISTS inl)
    order(${name})
  endforeach()
endfunction()
order(gpipe/plan.hpp)

get_property(headers GLOBAL PROPERTY ordered)
set(code "")
foreach(header IN LISTS headers)
  file(READ ${root}/include/${header} text)
  if(header STREQUAL "gpipe/model/hana.hpp")  # the part without Hana
    string(REGEX REPLACE "^.*\n#ifdef GPIPE_WITHOUT_HANA\n(.*)\n#else\n#include <boost.*$" "\\1" text "${text}")
  endif()
  set(text "\n${text}")
  string(REGEX REPLACE "\n#if !GPIPE_COMPILED\n#include <[^\n]*-inl\\.hpp>\n#endif" "" text "${text}")
  if(text MATCHES "\n#(if|elif|else)[^\n]*\n#include[^\n]*")
    message(FATAL_ERROR "include/${header} includes a header under a condition: ${CMAKE_MATCH_0}\n"
                        "include it at the top, or teach single_header.cmake this condition")
  endif()
  string(REGEX REPLACE "\n#(pragma once|include <)[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n\n+" "\n\n" text "${text}")
  string(REGEX REPLACE "^\n+|\n+$" "" text "${text}")
  if(NOT text STREQUAL "")
    string(APPEND code "\n// ${header}\n\n${text}\n")
  endif()
endforeach()

get_property(standard GLOBAL PROPERTY standard)
list(REMOVE_DUPLICATES standard)
list(SORT standard)
list(TRANSFORM standard REPLACE "(.+)" "#include <\\1>\n")
list(JOIN standard "" standard)
file(STRINGS ${root}/include/gpipe/version.hpp version REGEX "^#define GPIPE_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
string(REGEX REPLACE "[^0-9;]" "" version "${version}")
list(JOIN version "." version)
file(READ ${root}/LICENSE license)
string(STRIP "${license}" license)
string(REGEX REPLACE "\n" "\n// " license "\n${license}")
string(REGEX REPLACE "// \n" "//\n" license "${license}")

file(WRITE ${TO}
  "// gpipe ${version}: plans of pipeline-parallel training at compile time, in one file.\n"
  "//\n"
  "// Made by single_header.cmake from the headers that <gpipe/plan.hpp> includes: change those, not this file. Compile\n"
  "// with -std=c++20. It trains nothing: that takes the headers.\n"
  "//${license}\n\n"
  "#ifndef GPIPE_PLAN_HPP\n#define GPIPE_PLAN_HPP\n\n"
  "#if defined(GPIPE_COMPILED) && GPIPE_COMPILED\n"
  "#error \"gpipe_plan.hpp has no compiled library: compile without -D GPIPE_COMPILED=1\"\n#endif\n\n"
  "${standard}${code}\n#endif\n")
file(SIZE ${TO} bytes)
list(LENGTH headers count)
message(STATUS "${TO}: ${bytes} bytes of ${count} headers")
