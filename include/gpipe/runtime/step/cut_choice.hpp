#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/included.hpp>
#include <gpipe/plan/step_plan.hpp>

namespace gpipe {

/// The cut of a training, or none: `{.cut = {3, 7}}`, the first layer of every stage but the first. A program that
/// names no cut compiles no planner for it, because only the constructors from layers refer to it.
class cut_choice {
 public:
  cut_choice() = default;
  template <std::same_as<int> Layer>
  cut_choice(std::vector<Layer> first) : first_(std::move(first)), plan_(plan_by<Layer>()) {}
  template <std::same_as<int> Layer>
  cut_choice(std::initializer_list<Layer> first) : cut_choice(std::vector<Layer>(first)) {}

  bool empty() const { return first_.empty(); }
  std::span<const int> first() const { return first_; }
  /// Only if the cut is not empty.
  detail::plan_maker plan() const { return plan_; }

 private:
  template <class Layer>
  static detail::plan_maker plan_by() {
    static_assert(detail::included<detail::planner<Layer>>,
                  "gpipe: the option .cut of a training plans at run time: #include <gpipe/make_plan.hpp>");
    if constexpr (detail::included<detail::planner<Layer>>) return detail::planner<Layer>::plan_with_cut;
    else return nullptr;
  }

  std::vector<int> first_;
  detail::plan_maker plan_ = nullptr;
};

}  // namespace gpipe
