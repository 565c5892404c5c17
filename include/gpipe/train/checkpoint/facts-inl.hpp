#pragma once

#include <charconv>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <system_error>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/checkpoint/facts.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE safetensors_metadata checkpoint_facts::texts() const {
  return {{"gpipe.format", std::to_string(newest_format)},
          {"gpipe.steps", std::to_string(steps)},
          {"gpipe.seed", std::to_string(seed)},
          {"gpipe.epoch", std::to_string(position.epoch)},
          {"gpipe.batch", std::to_string(position.batch)},
          {"gpipe.batch_size", std::to_string(position.batch_size)},
          {"gpipe.samples", std::to_string(position.samples)},
          {"gpipe.frozen", frozen.value_or("")},
          {"gpipe.optimizer", optimizer},
          {"gpipe.optimizer_trial", optimizer_trial},
          {"gpipe.rate", rate},
          {"gpipe.groups", groups}};
}

GPIPE_COLD GPIPE_INLINE void require_one_step(const std::deque<safetensors_set>& sets) {
  const safetensors_file* first = nullptr;
  for (const safetensors_set& set : sets)
    for (const safetensors_file& file : set.files()) {
      const auto steps = file.metadata().find("gpipe.steps");
      if (steps == file.metadata().end()) continue;
      if (first == nullptr) first = &file;
      const std::string& first_steps = first->metadata().at("gpipe.steps");
      if (steps->second != first_steps)
        throw_error({"the file is of step ", detail::quoted(steps->second), ", but ", detail::quoted(first->path()),
                     " is of step ", detail::quoted(first_steps)},
                    {"load files of one checkpoint"}, {.file = file.path()});
    }
}

GPIPE_COLD GPIPE_INLINE checkpoint_facts read_facts(const safetensors_metadata& texts, const std::string& file) {
  const auto text = [&](const char* key) -> const std::string& {
    const auto found = texts.find(key);
    if (found == texts.end())
      throw_error({"the file has no text ", quoted(key), ", so it is no checkpoint of a training"},
                  {"give a folder that save has written"}, {.file = file});
    return found->second;
  };
  const auto number = [&](const char* key) {
    const std::string& digits = text(key);
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || end.ec != std::errc{} || end.ptr != digits.data() + digits.size())
      throw_error({"the text ", quoted(key), " is ", detail::quoted(digits), ", which is no number"},
                  {"load another checkpoint"}, {.file = file});
    return value;
  };
  if (const std::uint64_t format = number("gpipe.format"); format > checkpoint_facts::newest_format)
    throw_error(
        {"the checkpoint has format ", format, ", but this library reads up to ", checkpoint_facts::newest_format},
        {"use a newer gpipe"}, {.file = file});
  checkpoint_facts facts;
  const auto count = [&](const char* key) {
    const std::uint64_t value = number(key);
    constexpr std::uint64_t max = 1'000'000'000'000'000'000;  // far from where counts overflow
    if (value > max)
      throw_error({"the text ", quoted(key), " is ", value, ", which is no count of a training"},
                  {"load another checkpoint"}, {.file = file});
    return value;
  };
  facts.steps = count("gpipe.steps");
  facts.seed = number("gpipe.seed");
  facts.position = {count("gpipe.epoch"), static_cast<long>(count("gpipe.batch"))};
  facts.frozen.reset();
  if (number("gpipe.format") >= 2) {
    const auto int_count = [&](const char* key) {
      const std::uint64_t value = number(key);
      if (value > static_cast<std::uint64_t>((std::numeric_limits<int>::max)()))
        throw_error({"the text ", quoted(key), " is ", value, ", which is no number of samples"},
                    {"load another checkpoint"}, {.file = file});
      return static_cast<int>(value);
    };
    facts.position.batch_size = int_count("gpipe.batch_size");
    facts.position.samples = int_count("gpipe.samples");
    facts.frozen = text("gpipe.frozen");
  }
  facts.optimizer = text("gpipe.optimizer");
  facts.optimizer_trial = text("gpipe.optimizer_trial");
  facts.rate = text("gpipe.rate");
  facts.groups = text("gpipe.groups");
  return facts;
}

}  // namespace gpipe::detail
