# Checks that clang-format changes no file. Its versions format differently, so it is the one that is named here. Where
# that is not installed the test skips, and says so.
#
# cmake -D ROOT=... [-D FOLDERS=<instead of all>] -P format.cmake
cmake_minimum_required(VERSION 3.25)

set(version 14)
if(NOT FOLDERS)
  set(FOLDERS include tests examples bench)
endif()

foreach(name IN ITEMS clang-format-${version} clang-format)
  execute_process(COMMAND ${name} --version OUTPUT_VARIABLE found RESULT_VARIABLE code ERROR_QUIET)
  if(code EQUAL 0 AND found MATCHES "version ${version}\\.")
    set(clang_format ${name})
    break()
  endif()
endforeach()
if(NOT clang_format)
  message("SKIPPED: there is no clang-format ${version}: install clang-format-${version} (Debian, Ubuntu)")
  return()
endif()

set(files "")
foreach(folder IN LISTS FOLDERS)
  file(GLOB_RECURSE found RELATIVE ${ROOT} ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu)
  list(APPEND files ${found})
endforeach()
if(NOT files)
  message(FATAL_ERROR "there is no source in: ${FOLDERS}")
endif()
execute_process(COMMAND ${clang_format} --dry-run --style=file ${files} WORKING_DIRECTORY ${ROOT}
                RESULT_VARIABLE code ERROR_VARIABLE warnings OUTPUT_QUIET)
string(REGEX MATCHALL "[^\n]+:[0-9]+:[0-9]+: warning: code should be" warnings "${warnings}")
list(TRANSFORM warnings REPLACE ":[0-9]+:[0-9]+: .*$" "")
list(REMOVE_DUPLICATES warnings)
if(warnings OR NOT code EQUAL 0)
  list(LENGTH warnings count)
  list(JOIN warnings "\n  " list)
  message(FATAL_ERROR "${count} files are not formatted; call ${clang_format} -i for each:\n  ${list}")
endif()
