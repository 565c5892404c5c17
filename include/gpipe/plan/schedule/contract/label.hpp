#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

#include <string_view>

namespace gpipe::detail {

/// A short text without allocation, so that programs can be printed in constant evaluation, too.
struct label {
  char letters[48] = {};
  int size = 0;

  constexpr void put(char letter) { letters[size++] = letter; }
  constexpr void put(std::string_view text) {
    for (const char letter : text) put(letter);
  }
  constexpr void put(int number) {
    int digits = 1;
    for (int remaining = number; remaining >= 10; remaining /= 10) ++digits;
    for (int i = digits - 1; i >= 0; --i, number /= 10) letters[size + i] = static_cast<char>('0' + number % 10);
    size += digits;
  }

  constexpr std::string_view text() const { return {letters, static_cast<std::size_t>(size)}; }
  constexpr operator std::string_view() const { return text(); }
  constexpr bool operator==(std::string_view literal) const { return text() == literal; }
};

// change: an action
/// An instruction in the usual short form, with micro-batch m and link l:
///
///     F1  forward               R1  recompute             B1  backward
///     I1  backward input        W1  backward parameters   .   idle
///     F1>2  send activation     F1<2  receive activation  (link 2)
///     B1>2  send gradient       B1<2  receive gradient    reduce, update
///
/// `with_stage` writes the stage in front, as in 3F1.
constexpr label label_of(const instruction& action, bool with_stage = false) {
  constexpr std::string_view heads[] = {".", "F", "R", "B", "I", "W", "F", "F", "B", "B", "reduce", "update"};
  label text;
  if (with_stage && action.stage >= 0) text.put(action.stage);
  text.put(heads[static_cast<int>(action.kind)]);
  if (action.micro_batch >= 0) text.put(action.micro_batch);
  if (is_send(action.kind)) text.put('>');
  if (is_receive(action.kind)) text.put('<');
  if (action.link >= 0) text.put(action.link);
  return text;
}

/// The label of a cell: `F3`, or with its stage `2F3`.
constexpr label label_of(const cell& cell, bool with_stage = false) {
  return label_of(instruction{cell.kind, cell.stage, cell.micro_batch, -1}, with_stage);
}

[[noreturn]] inline void bad_label(std::string_view text) {
  throw_error(
      {"the instruction is '", text, "'"},
      {"write F1, R1, B1, I1, W1, F1>2, F1<2, B1>2, B1<2, reduce, update or '.', with or without a stage (3F1)"});
}

/// Removes a number from the front and returns it; -1 if there is none, or if it is too large.
constexpr int take_number(std::string_view& text) {
  int number = -1;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    if (number > 100'000'000) return -1;
    number = (number < 0 ? 0 : number) * 10 + (text[0] - '0');
    text.remove_prefix(1);
  }
  return number;
}

/// Parses a text of `label_of`; throws if it is not an instruction.
constexpr instruction parse_instruction(std::string_view text) {
  std::string_view unread = text;
  instruction action;
  action.stage = detail::take_number(unread);
  if (unread == "reduce" || unread == "update" || unread == ".") {
    action.kind = unread == "." ? action_kind::idle : unread == "reduce" ? action_kind::reduce : action_kind::update;
    return action;
  }
  const char head = unread.empty() ? '?' : unread[0];
  action.kind = head == 'F'   ? action_kind::forward
                : head == 'R' ? action_kind::recompute
                : head == 'B' ? action_kind::backward
                : head == 'I' ? action_kind::backward_input
                : head == 'W' ? action_kind::backward_parameters
                              : action_kind::idle;
  if (action.kind == action_kind::idle) detail::bad_label(text);
  unread.remove_prefix(1);
  action.micro_batch = detail::take_number(unread);
  if (!unread.empty() && (head == 'F' || head == 'B') && (unread[0] == '>' || unread[0] == '<')) {
    const bool sends = unread[0] == '>';
    action.kind = head == 'F' ? (sends ? action_kind::send_activation : action_kind::receive_activation)
                              : (sends ? action_kind::send_gradient : action_kind::receive_gradient);
    unread.remove_prefix(1);
    action.link = detail::take_number(unread);
    if (action.link < 0) detail::bad_label(text);
  }
  if (action.micro_batch < 0 || !unread.empty()) detail::bad_label(text);
  return action;
}

}  // namespace gpipe::detail
