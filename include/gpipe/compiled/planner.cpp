// A part of the compiled library, see compiled.cpp. The planner, and what all parts share: texts, errors, numbers.

#include <gpipe/core/descriptions/rate-inl.hpp>
#include <gpipe/core/error-inl.hpp>
#include <gpipe/core/numbers/double_math-inl.hpp>
#include <gpipe/model/path-inl.hpp>
#include <gpipe/plan/constant_plan-inl.hpp>
#include <gpipe/plan/cut/simulated_cut-inl.hpp>
#include <gpipe/plan/make_plan-inl.hpp>
#include <gpipe/plan/summary-inl.hpp>
#include <gpipe/tools/best/find_best-inl.hpp>
#include <gpipe/tools/report/model_summary-inl.hpp>
#include <gpipe/tools/search/searched_plan-inl.hpp>
