# Runs PROGRAM with ARGUMENTS on emulated GPUs, in each of WAYS: GPUs, the order of work, and further arguments, such as
# "2 late --stages 4". Its last two lines are always the same, and nothing is found.

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
if(NOT expected MATCHES "${LINES}")
  message(SEND_ERROR "the lines are not like \"${LINES}\"")
endif()
