# Builds and runs a copy of a consumer's project outside the source tree, and checks its output.
#     cmake -D CONSUMERS=<this folder> -D SCRATCH=<folder> -D WAY=<project> -D EXPECT=<regular expression>
#           [-D OPTIONS=<options of cmake>] [-D LAUNCHER=<command>] [-D COPY=<gpipe> -D README=ON] -P consume.cmake
# With README the project is the block of CMake in the copy's examples/guide/install.md that names FetchContent.

set(work ${SCRATCH}/${WAY})
file(REMOVE_RECURSE ${work})
file(COPY ${CONSUMERS}/ DESTINATION ${work} PATTERN "*.cmake" EXCLUDE)
if(README)
  file(READ ${COPY}/examples/guide/install.md text)
  string(REGEX MATCH "\n```cmake\n([^`]*FetchContent_MakeAvailable[^`]*)```\n" block "${text}")
  if(NOT block)
    message(FATAL_ERROR "install.md has no block of CMake with FetchContent_MakeAvailable")
  endif()
  file(WRITE ${work}/${WAY}/CMakeLists.txt "${CMAKE_MATCH_1}")
  file(COPY_FILE ${CONSUMERS}/planning.cpp ${work}/${WAY}/main.cpp)
  file(CREATE_LINK ${COPY} ${work}/${WAY}/gpipe SYMBOLIC)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${work}/${WAY} -B ${work}/build ${OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${LAUNCHER} ${work}/build/main OUTPUT_VARIABLE said COMMAND_ECHO STDOUT
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT said MATCHES "${EXPECT}")
  message(FATAL_ERROR "the output of ${WAY} is '${said}', but '${EXPECT}' is expected")
endif()
