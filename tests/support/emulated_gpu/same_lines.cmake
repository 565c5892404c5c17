# Runs PROGRAM with ARGUMENTS on emulated GPUs, in each of WAYS: GPUs, the order of work, and further arguments, such as
# "2 late --stages 4". Its last two lines are always the same, and nothing is found. The number in the first of them is
# the host's, but for ROUNDING in its fourth place.

# fourth_place(<variable> <text>): the first number in a text, such as 0.5938, times 10000.
function(fourth_place variable text)
  string(REGEX MATCH "([0-9]+)\\.([0-9][0-9][0-9][0-9])" number "${text}")
  math(EXPR number "${CMAKE_MATCH_1} * 10000 + 1${CMAKE_MATCH_2} - 10000")
  set(${variable} ${number} PARENT_SCOPE)
endfunction()

execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} --quiet OUTPUT_VARIABLE text)
fourth_place(of_host "${text}")
set(expected "")
foreach(way IN LISTS WAYS)
  string(REPLACE " " ";" arguments "${way}")
  list(POP_FRONT arguments gpus order)
  set(ENV{EMULATED_GPUS} ${gpus})
  set(ENV{EMULATED_ORDER} ${order})
  execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} --device cuda --quiet --deadline 3600 ${arguments}
                  RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${way}: status ${status}\n${text}${errors}")
  endif()
  string(REGEX MATCH "[^\n]*\n[^\n]*\n$" lines "${text}")
  message("${way}: ${lines}")
  if(expected AND NOT lines STREQUAL expected)
    message(SEND_ERROR "these lines are others")
  endif()
  set(expected "${lines}")
endforeach()
fourth_place(found "${expected}")
math(EXPR difference "${found} - ${of_host}")
if(difference GREATER ROUNDING OR difference LESS -${ROUNDING})
  message(SEND_ERROR "the host's number is ${of_host} ten-thousandths")
endif()
