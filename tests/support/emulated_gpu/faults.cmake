# Runs PROGRAM, which is faults.cu, correctly and with each of its faults: the emulated GPU finds each, with this text.
# And DOUBLE_IN_TYPE, which is double_in_type.cu.

set(found
  "barrier|unwritten memory in .*sum<false.*shared memory that nothing has written"
  "index|out of bounds in .*add.*block \\(3, 0, 0\\), thread \\(232, 0, 0\\).*4000 bytes into an allocation of 4000"
  "shuffle|shuffle in .*sum<true.*reads lane 31, which does not take part"
  "event|unordered in .*sum.*reads what .*add.* writes on another stream"
  "event of a graph|unordered in .*sum.*reads what .*add.* writes on another stream"
  "default stream|unordered in cudaMemcpy.*writes what cudaMemset writes"
  "unwritten|unwritten memory in .*add.*global memory that nothing has written"
  "early end|divergent barrier in .*end_early.*16 threads have ended before a barrier of 48"
  "shared|out of bounds in .*overrun_shared.*shared address"
  "second barrier|race in .*read_before_barrier.*shared"
  "blocks|race in .*write_one_place.*block"
  "bounds|launch limits in .*small_blocks.*256 threads, and launch bounds of 128"
  "alignment|misaligned in .*misaligned"
  "vector|misaligned in .*misaligned_vector.*writes 16 bytes"
  "divergence|divergent barrier in .*diverge.*threads of a warp wait at the barriers of lines"
  "wait for a copy|copy in .*copy_and_load.*reads what a cp.async still writes"
  "barrier after a copy|race in .*copy_and_load.*reads what thread .* wrote without a barrier between, at shared"
  "lanes|warp in .*copy_and_load.*not all lanes of its warp take part"
  "running copy|copy in .*copy_and_load.*has not awaited its copies"
  "not asked|launch limits in .*take_dynamic.*60000 bytes of shared memory"
  "promise|cuBLASLt in cublasLtMatmul.*not aligned as the heuristic was promised"
  "stride|cuBLASLt in cublasLtMatmul.*a leading dimension is smaller than the rows"
  "freed|out of bounds in .*add"
  "other GPU|out of bounds in .*add.*without access to that GPU")

foreach(correct IN ITEMS "" "graph" "product" "tensor cores" "asked")
  execute_process(COMMAND ${PROGRAM} ${correct} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT text MATCHES " 0 findings")
    message(SEND_ERROR "the correct program, ${correct}: status ${status}\n${text}")
  endif()
endforeach()
foreach(line IN LISTS found)
  string(REGEX MATCH "^([^|]*)\\|(.*)$" line "${line}")
  set(fault "${CMAKE_MATCH_1}")
  set(expected "${CMAKE_MATCH_2}")
  execute_process(COMMAND ${PROGRAM} ${fault} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 99 OR NOT text MATCHES "${expected}")
    message(SEND_ERROR "fault ${fault}: status ${status}, and not \"${expected}\":\n${text}")
  endif()
endforeach()
execute_process(COMMAND ${DOUBLE_IN_TYPE} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT status EQUAL 99 OR
   NOT text MATCHES "kernel's type in .*a floating-point number is part of it.*unregistered kernel")
  message(SEND_ERROR "a double in a kernel's type: status ${status}\n${text}")
endif()
execute_process(COMMAND ${PROGRAM} host RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
if(status EQUAL 0)
  message(SEND_ERROR "the host has read a GPU's memory")
endif()
