#pragma once

// The stages of a compiled plan as types, for experiments in the compiler: `plan::stages()` is a tuple of Boost.Hana,
// and so are the layers of each stage. Hana's algorithms run on both.
//
//     constexpr auto layers = boost::hana::fold(four_stages::stages(), 0,
//                                              [](int sum, auto stage) { return sum + stage.last - stage.first; });
//
// A plan without this header reads none of it.
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/stages/stage_types.hpp>
