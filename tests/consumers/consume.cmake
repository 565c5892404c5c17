# Builds and runs a copy of a consumer's project outside the source tree, and checks its output.
#     cmake -D CONSUMERS=<this folder> -D SCRATCH=<folder> -D WAY=<project> -D EXPECT=<regular expression>
#           [-D OPTIONS=<options of cmake>] [-D LAUNCHER=<command>] -P consume.cmake

set(work ${SCRATCH}/${WAY})
file(REMOVE_RECURSE ${work})
file(COPY ${CONSUMERS}/ DESTINATION ${work} PATTERN "*.cmake" EXCLUDE)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${work}/${WAY} -B ${work}/build ${OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${LAUNCHER} ${work}/build/main OUTPUT_VARIABLE said COMMAND_ECHO STDOUT
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT said MATCHES "${EXPECT}")
  message(FATAL_ERROR "the output of ${WAY} is '${said}', but '${EXPECT}' is expected")
endif()
