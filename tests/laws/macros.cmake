# A program may include gpipe after headers that define macros of any name, so no name of gpipe is one of these macros.
#     cmake -D ROOT=<gpipe> -D SCRATCH=<folder> -D COMPILER=<c++> "-DINCLUDE=<folders>" "-DHEADERS=<headers>"
#           -P macros.cmake
# The compiler reads HEADERS, and the preprocessor every line of every header: both branches of an #if, and CUDA's code.

set(names_of_X11
    Above Always Below Bool ButtonPress ClientMessage Complex ControlMask Convex CurrentTime CursorShape DefaultDepth
    DestroyAll DirectColor Expose False FocusIn FocusOut FontChange GenericEvent GrayScale InputFocus InputOnly InputOutput
    KeyPress KeyRelease LineSolid LockMask NextRequest NoValue None Nonconvex NormalState Opposite PSize ParentRelative
    PointerRoot ProtocolVersion RootWindow ScreenCount ShiftMask Status Success SyncBoth TopIf True Unsorted WidthValue
    WindingRule XValue YSorted)
set(names_of_Qt METHOD SIGNAL SLOT emit foreach forever signals slots)
set(names_of_glog
    CHECK CHECK_EQ CHECK_GE CHECK_GT CHECK_LE CHECK_LT CHECK_NE CHECK_NEAR CHECK_NOTNULL DCHECK DCHECK_EQ DLOG DVLOG LOG
    LOG_ASSERT LOG_IF PCHECK PLOG SYSLOG VLOG VLOG_IS_ON)
set(names_of_windows_h
    CONST CopyFile CreateFile DELETE DIFFERENCE DOMAIN DeleteFile ERROR FAR FAILED GetClassName GetCurrentTime GetMessage
    GetObject HIWORD IGNORE IN INFINITE LOWORD LoadImage LoadLibrary MoveFile NEAR NOERROR NO_ERROR OPAQUE OPTIONAL OUT
    OVERFLOW PASCAL PLANES PURE RGB ReportEvent SendMessage STRICT TEXT THIS UNDERFLOW VOID WINDING Yield cdecl environ
    far hyper interface near pascal small)
set(names_of_complex_h I _Complex_I complex imaginary)
set(names_of_gnu_compilers i386 linux unix)

# Without R_NO_REMAP and R_NO_REMAP_RMATH, R renames its functions. A name of gpipe is renamed with them, everywhere.
set(names_of_R
    alloc3DArray allocArray allocList allocMatrix allocVector asChar asInteger asLogical asReal beta choose classgets
    conformable cons copyMatrix copyVector countContexts dbeta dexp df dgamma dnorm dpois dt duplicate duplicated dunif elt
    error eval findFun findVar fprec fround fsign ftrunc getAttrib inherits install isArray isFree isFunction isInteger
    isList isLogical isMatrix isNull isNumber isNumeric isObject isOrdered isReal isString isSymbol isVector lang1 lang2
    lastElt lbeta lchoose lcons list1 list2 listAppend match mkChar mkNamed mkString ncols nlevels nrows pexp pf pgamma
    pmatch pnorm ppois protect psmatch pt punif qexp qf qgamma qnorm qpois qt qunif rPsort revsort rexp rf rgamma rnorm
    rpois rt runif setAttrib setVar sign substitute topenv type2str unprotect warning xlength)

set(garbage "")
foreach(header IN ITEMS X11 Qt glog windows_h complex_h gnu_compilers)
  foreach(name IN LISTS names_of_${header})
    string(APPEND garbage "#undef ${name}\n#define ${name} @ ${name} of ${header} in __FILE__:__LINE__ @\n")
  endforeach()
endforeach()
foreach(name IN ITEMS max min)  # a name without arguments is no call of such a macro: (std::max)(a, b)
  string(APPEND garbage "#define ${name}(a, b) @ ${name} of windows_h in __FILE__:__LINE__ @\n")
endforeach()
set(renamed "#define length(x) Rf_length(x)\n")
foreach(name IN LISTS names_of_R)
  string(APPEND renamed "#define ${name} Rf_${name}\n")
endforeach()

# The headers of other libraries come first: few of them compile after such macros.
file(GLOB_RECURSE headers RELATIVE ${ROOT}/include ${ROOT}/include/*.hpp)
set(outside "")
set(lines_of_gpipe "")
foreach(header IN LISTS headers)
  file(STRINGS ${ROOT}/include/${header} lines REGEX "^#include <([a-z_]+(\\.h)?>|sys/|boost/|thrust/)")
  list(APPEND outside ${lines})
  file(READ ${ROOT}/include/${header} text)
  string(REGEX REPLACE "(^|\n) *#[^\n]*" "\\1" text "${text}")
  string(APPEND lines_of_gpipe "#line 1 \"${header}\"\n${text}")
endforeach()
list(REMOVE_DUPLICATES outside)
list(FILTER outside EXCLUDE REGEX "cuda|nccl")
list(TRANSFORM outside REPLACE "^#include (<[^>]*>).*" "#if __has_include(\\1)\n#include \\1\n#endif")
list(JOIN outside "\n" outside)
list(TRANSFORM HEADERS REPLACE "(.+)" "#include \"\\1\"")
list(JOIN HEADERS "\n" included)
string(PREPEND outside "#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP\n#include <cstdio>\n")  # libjpeg needs the latter
file(WRITE ${SCRATCH}/macros.cpp "${outside}\n${garbage}${renamed}${included}\n")
file(WRITE ${SCRATCH}/macros_all.cpp "${garbage}${lines_of_gpipe}")

execute_process(COMMAND ${COMPILER} -std=c++20 -E ${SCRATCH}/macros_all.cpp OUTPUT_VARIABLE text ERROR_QUIET)
string(REGEX MATCHALL "@ [^@\n]* @" found "${text}")
if(found)
  list(REMOVE_DUPLICATES found)
  list(JOIN found "\n  " found)
  message(FATAL_ERROR "programs that define these macros cannot include gpipe:\n  ${found}")
endif()

list(TRANSFORM INCLUDE PREPEND -I)
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${INCLUDE} ${SCRATCH}/macros.cpp
                RESULT_VARIABLE failed ERROR_VARIABLE messages)
if(failed)
  string(SUBSTRING "${messages}" 0 4000 messages)
  message(FATAL_ERROR "${messages}")
endif()
