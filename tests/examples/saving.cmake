# A run that goes on from a checkpoint prints the same two last lines as a run that was not stopped: at another number of
# stages and another schedule, from the middle, after SIGTERM, and after a signal to one process of a job.
# A save that fails in the middle is a warning, and one at the end an error.
# LINES: the number of lines of data to use, for programs that a sanitizer slows down.
cmake_minimum_required(VERSION 3.25)

set(scratch ${SCRATCH}/saving)
set(folder ${scratch}/run)
file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})
set(epochs 6)
set(last_step 60)  # of 16 samples out of the 160 that are not held out
set(data_lines 200)
if(LINES)
  set(epochs 2)
  set(last_step 10)
  set(data_lines 100)
endif()
cmake_path(GET SOURCE PARENT_PATH here)
file(STRINGS ${here}/data/digits.csv lines LIMIT_COUNT ${data_lines})
list(JOIN lines "\n" lines)
file(WRITE ${scratch}/lines.csv "${lines}\n")
set(always --batch 16 --data ${scratch}/lines.csv)

# digits(<options>...): runs the program. Sets printed, message and code.
function(digits)
  execute_process(COMMAND ${PROGRAM} --epochs ${epochs} ${always} ${ARGN}
                  OUTPUT_VARIABLE printed ERROR_VARIABLE message RESULT_VARIABLE code)
  return(PROPAGATE printed message code)
endfunction()
function(complain)
  message(SEND_ERROR ${ARGN} " digits exited with ${code} and printed\n${printed}${message}")
endfunction()

digits(--quiet --save ${folder} --save-every 4)
set(expected "${printed}")
if(NOT code EQUAL 0 OR NOT expected MATCHES "^test accuracy 0\\.[0-9]+\nparameters [0-9a-f]+\n$" OR message)
  message(FATAL_ERROR "digits printed\n${printed}${message}")
endif()
file(GLOB checkpoints ${folder}/step-*)
list(LENGTH checkpoints count)
if(NOT count EQUAL 3)
  message(SEND_ERROR "${count} checkpoints are left, not 3: ${checkpoints}")
endif()

# goes_on(<from> <options>...): the run from there has the same end.
function(goes_on from)
  digits(--resume ${from} ${ARGN})
  string(REGEX MATCH "test accuracy [^\n]*\nparameters [^\n]*\n$" end "${printed}")
  if(NOT code EQUAL 0 OR NOT end STREQUAL expected)
    complain("from ${from} with ${ARGN}, and not\n${expected}:")
  endif()
  return(PROPAGATE printed message code)
endfunction()
list(GET checkpoints 0 oldest)
goes_on(${oldest} --stages 3 --seed 9)  # the checkpoint's seed counts
goes_on(${oldest} --stages 6 --schedule 1F1B --recompute always)
# From the end: nothing is left to do, and what is saved there is the end, too.
goes_on(${folder} --save ${folder})
goes_on(${folder} --stages 1)

# rejected(<pattern> <options>...): ends with exit code 1 and a message.
function(rejected what)
  digits(${ARGN})
  if(NOT code EQUAL 1 OR NOT message MATCHES "^digits: [^\n]*${what}[^\n]*\n$" OR printed)
    complain("not rejected with ${what}:")
  endif()
  return(PROPAGATE message)
endfunction()
# A broken checkpoint is not passed over in silence; its error names the one to go on from.
set(newest step-000000${last_step})
file(WRITE ${folder}/${newest}/model.safetensors "broken")
rejected("the newest checkpoint, ${newest}, cannot be read: [^\n]+ allow_older" --resume ${folder})
string(REGEX REPLACE ".* load \"([^\"]+)\".*" "\\1" older "${message}")
goes_on(${older})
if(NOT printed MATCHES "goes on after step [0-9]+ of ${older}\n")
  complain("with a broken newest checkpoint")
endif()
file(MAKE_DIRECTORY ${scratch}/empty)
rejected("missing: there is no such file or folder; give a folder" --resume ${scratch}/missing)
rejected("empty: the folder has no checkpoint; give a folder that save has written" --resume ${scratch}/empty)
rejected("missing/run: option --save: the folder cannot be made: No such file" --save ${scratch}/missing/run)
rejected("option --save-every: 5 without --save; give --save FOLDER" --save-every 5)

# A file with the name of a checkpoint: that save fails, and the training goes on unless it is the last.
file(REMOVE_RECURSE ${folder})
file(WRITE ${folder}/step-00000004 "in the way")
digits(--quiet --save ${folder} --save-every 4)
string(REGEX MATCHALL "a checkpoint is not saved: [^\n]*step-00000004" warnings "${message}")
list(LENGTH warnings count)
if(NOT code EQUAL 0 OR NOT printed STREQUAL expected OR NOT count EQUAL 1)
  complain("a save that fails in the middle should be one warning:")
endif()
file(REMOVE_RECURSE ${folder})
file(WRITE ${folder}/step-000000${last_step} "in the way")
digits(--quiet --save ${folder})
if(NOT code EQUAL 1 OR NOT message MATCHES "step-000000${last_step}: the checkpoint's name")
  complain("a last save that fails should be an error:")
endif()

# A run that gets a signal when the file ${event} exists, or a line of the log. Slow links let no run end before that.
set(slow --stages 2 --link-bytes-per-s 100000)
file(WRITE ${scratch}/signal.sh [[
signal=$1 event=$2 of=$3
shift 3
"$@" & pid=$!
until test -s "$(ls $event 2> /dev/null | head -n 1)"; do kill -0 $pid 2> /dev/null || break; sleep 0.01; done
test -z "$of" || pid_of=$(cat "$of")
kill -$signal ${pid_of:-$pid} 2> /dev/null
wait $pid
]])
function(interrupted signal event of)
  file(REMOVE_RECURSE ${folder})
  execute_process(COMMAND sh ${scratch}/signal.sh ${signal} ${event} "${of}" ${ARGN}
                  OUTPUT_VARIABLE printed ERROR_VARIABLE message RESULT_VARIABLE code)
  return(PROPAGATE printed message code)
endfunction()

set(a_checkpoint "${folder}/step-*[0-9]/*.safetensors")
set(run --epochs ${epochs} ${always} --quiet --save ${folder} --save-every 1 ${slow})
interrupted(TERM ${a_checkpoint} "" ${PROGRAM} ${run})
if(NOT code EQUAL 143 OR printed OR
   NOT message MATCHES "^digits: stopped by SIGTERM after step ([0-9]+); go on with: ([^\n]*)\n$")
  complain("after SIGTERM")
endif()
set(step "${CMAKE_MATCH_1}")
set(command "${CMAKE_MATCH_2}")
if(step GREATER_EQUAL last_step OR NOT command STREQUAL "${PROGRAM} --epochs ${epochs} --batch 16 --data ${scratch}/lines.csv --quiet --save ${folder} --save-every 1 --stages 2 --link-bytes-per-s 100000 --resume ${folder}")
  message(SEND_ERROR "after SIGTERM digits stopped after step ${step} and gave the command\n${command}")
endif()
goes_on(${folder} --stages 5 --schedule zb-h1)
if(NOT printed MATCHES "goes on after step ${step} of ")
  complain("not from step ${step}:")
endif()

interrupted(INT ${scratch}/log.csv "" ${PROGRAM} --epochs 100000 ${always} --quiet --log ${scratch}/log.csv)
if(NOT code EQUAL 130 OR
   NOT message MATCHES "^digits: stopped by SIGINT after step [0-9]+, and not saved; give --save FOLDER to go on later\n$")
  complain("after SIGINT")
endif()

if(MPIEXEC)  # links of a job are not slow: it trains for long, and two runs go on from where it was stopped
  set(run --epochs 100000 ${always} --quiet --save ${folder} --save-every 20 --stages 2 --transport mpi)
  interrupted(TERM ${a_checkpoint} ${scratch}/pid ${MPIEXEC} -np 1 ${PROGRAM} ${run}
              : -np 1 sh -c "echo $$ > ${scratch}/pid && exec \"$0\" \"$@\"" ${PROGRAM} ${run})
  string(REGEX MATCHALL "digits: stopped by SIGTERM after step [0-9]+" stopped "${message}")
  list(LENGTH stopped count)
  if(NOT code EQUAL 143 OR NOT count EQUAL 1)
    complain("after SIGTERM to the second process")
  endif()
  string(REGEX MATCH "after step ([0-9]+)" step "${stopped}")
  math(EXPR epochs "${CMAKE_MATCH_1} / 10 + 2")
  digits(--quiet --resume ${folder} --stages 1)
  set(expected "${printed}")
  if(NOT code EQUAL 0)
    complain("from a job's checkpoint")
  endif()
  goes_on(${folder} --stages 3)
  execute_process(COMMAND ${MPIEXEC} -np 2 ${PROGRAM} --epochs ${epochs} ${always} --stages 2 --transport mpi
                          --quiet --resume ${folder}
                  OUTPUT_VARIABLE printed ERROR_VARIABLE message RESULT_VARIABLE code)
  if(NOT code EQUAL 0 OR NOT printed STREQUAL expected)
    complain("in a job, and not\n${expected}:")
  endif()
endif()
