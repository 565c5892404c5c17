# Compiles one file twice: with GPIPE_FAIL it must fail with the expected messages, without it must compile (if correct is
# ON). Such a file is
#
#     // expect: a regular expression of CMake, found in the compiler's messages
#     // expect: another one (each must be found)
#     // errors: 1        (if present, the exact number of errors: one mistake, one error)
#     #include <...>
#     the correct code, which compiles
#     #ifdef GPIPE_FAIL
#     the mistake
#     #endif
#
# The messages are in English and without the quoted source lines, so that no text of a source file matches a regex.

file(STRINGS ${source} joined REGEX "^//.+ (expect|errors): ")
if(joined)
  message(FATAL_ERROR "${source} has an expectation inside a line: begin a line with it")
endif()
file(STRINGS ${source} comments REGEX "^// (expect|errors): ")
set(expected "")
set(errors "")
foreach(comment IN LISTS comments)
  if(comment MATCHES "^// expect: (.+)$")
    string(REPLACE ";" "." regex "${CMAKE_MATCH_1}")  # a semicolon would end the element of the list
    list(APPEND expected "${regex}")
  elseif(comment MATCHES "^// errors: ([0-9]+)$")
    set(errors ${CMAKE_MATCH_1})
  endif()
endforeach()
if(NOT expected)
  message(FATAL_ERROR "${source} has no expectation: add a line `// expect: <regular expression>`")
endif()

set(command ${compiler} -std=c++20 -fsyntax-only -DGPIPE_COMPILED=1)  # without the bodies of the compiled library
if(id MATCHES "Clang")
  list(APPEND command -fno-caret-diagnostics -ferror-limit=0)
else()
  list(APPEND command -fno-diagnostics-show-caret -fmax-errors=0)
endif()
list(TRANSFORM include PREPEND -I)
list(TRANSFORM define PREPEND -D)
list(APPEND command ${include} ${define} ${source})
set(ENV{LC_ALL} C)

if(correct)
  execute_process(COMMAND ${command} RESULT_VARIABLE code ERROR_VARIABLE messages)
  if(code)
    message(FATAL_ERROR "${source}: without GPIPE_FAIL it must compile\n${messages}")
  endif()
endif()

# problem_of(<result> <messages>): how the messages differ from what is expected, or nothing.
function(problem_of result messages)
  foreach(regex IN LISTS expected)
    if(NOT messages MATCHES "${regex}")
      set(${result} "fails, but not as expected: no `${regex}`" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(NOT errors STREQUAL "")
    string(REGEX MATCHALL "[0-9]: (fatal )?error: " found "${messages}")
    list(LENGTH found count)
    if(NOT count EQUAL errors)
      set(${result} "${count} errors where ${errors} were expected" PARENT_SCOPE)
      return()
    endif()
  endif()
  set(${result} "" PARENT_SCOPE)
endfunction()

# The messages of the file in a source of several, if they are as expected there.
if(EXISTS "${messages}")
  file(READ "${messages}" together)
  problem_of(problem "${together}")
  if(together AND NOT problem)
    return()
  endif()
endif()

execute_process(COMMAND ${command} -DGPIPE_FAIL RESULT_VARIABLE code ERROR_VARIABLE messages)
if(code EQUAL 0)
  message(FATAL_ERROR "${source}: compiles with GPIPE_FAIL, but must not")
endif()
problem_of(problem "${messages}")
if(problem)
  message(FATAL_ERROR "${source}: ${problem} in\n${messages}")
endif()
# Clang's first error stands near the top, as the guide says; g++'s below its context.
if(id MATCHES "Clang")
  string(FIND "${messages}" "error: " begin)
  string(SUBSTRING "${messages}" 0 ${begin} before)
  string(REGEX MATCHALL "\n" lines "${before}")
  list(LENGTH lines count)
  if(count GREATER 9)
    message(FATAL_ERROR "${source}: ${count} lines come before the first error\n${messages}")
  endif()
endif()
