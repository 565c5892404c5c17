#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/checkpoint/checkpoint_folder.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/checkpoint/background.hpp>
#include <gpipe/train/checkpoint/checkpoint_files.hpp>
#include <gpipe/train/checkpoint/checkpoint_options.hpp>
#include <gpipe/train/checkpoint/names/map_names.hpp>
#include <gpipe/train/checkpoint/names/model_config.hpp>
#include <gpipe/train/checkpoint/values_before.hpp>

namespace gpipe::detail {

/// The copied arrays of a background save.
struct array_copy {
  std::unique_ptr<std::byte[]> bytes{};
  std::size_t size = 0;

  void reserve(std::size_t wanted) {
    if (wanted <= size) return;
    bytes.reset();
    bytes = std::make_unique_for_overwrite<std::byte[]>(wanted);
    size = wanted;
  }
};

/// The memory and the thread that a trainer keeps between saves.
struct saving {
  array_copy copy{};
  background writer{};  // destroyed first: it reads the copy
};

// change: checkpoint contents
/// Saves and loads the arrays of an executor. In a job of processes each process writes the arrays that it has:
///
///     rank 0:  make the folder |        | write its files |        | index, name the folder |
///     others:                  | agree  | write their own | agree  |                        | agree
class checkpointer {
 public:
  using run_type = executor;
  checkpointer(run_type& run, file_operations& files) : run_(run), files_(files) {}

  GPIPE_COLD void save(const std::string& folder, const save_options& options, checkpoint_facts facts,
                       background& writer, array_copy& copy) const {
    require_valid(options);
    if (options.names != name_map{})
      throw_error({"names are given for the checkpoint ", detail::quoted(folder)},
                  {"save the model alone, to a path that ends with .safetensors"});
    agree(collective_kind::save, folder, {.layout = options.layout}, options.texts);
    facts.steps = run_.steps();
    facts.seed = run_.seed();
    facts.position = options.position;
    auto content = std::make_shared<const contents>(contents_of(options, facts));
    if (options.wait || !together().alone()) return write(folder, options.keep, *content, reader());
    const array_reader read = copied(*content, copy);
    writer.start([this_one = *this, folder, keep = options.keep, content, read] {
      this_one.write(folder, keep, *content, read);
    });
  }

  // change: a checkpoint file format
  /// The model alone, in one file. In a job rank 0 writes it.
  GPIPE_COLD void save_model(const std::string& file, const save_options& options) const {
    const name_map& names = options.names;
    require_valid_texts(options.texts);
    if (options.position != data_position{})
      throw_error({"a position in the data is given, but ", detail::quoted(file), " is a model alone"},
                  {"save to a folder, whose checkpoint has the position"});
    agree(collective_kind::save, file, {.names = names, .layout = options.layout}, options.texts);
    std::vector<stored_array> arrays = model_arrays(run_.net());
    if (names.tied_once) std::erase_if(arrays, [](const stored_array& array) { return array.copy; });
    const file_list list = deal_arrays("model", in_file(arrays, names, saved_prefix(names), options.layout), UINT64_MAX,
                                       [](const auto&) { return 0; });
    const safetensors_metadata facts = model_facts(layout_text(arrays, names, options.layout), options.texts);
    std::uint64_t bytes = 0;
    for (const stored_array& array : list.files.front().arrays) bytes += array.location.bytes;
    if (options.max_file_bytes < bytes && options.max_file_bytes != save_options::default_file_bytes)
      throw_error({"max_file_bytes is ", options.max_file_bytes, ", but ", detail::quoted(file), " is one file of ",
                   bytes, " bytes"},
                  {"save to a folder, where a model goes to several files"});
    const checkpoint_file& content = list.files.front();
    const array_reader read = [this](const stored_array& array, std::size_t offset, std::span<std::byte> target) {
      run_.read(array.location.part(offset, target.size()), target.data());
    };
    array_source source(content, read);
    together().together([&] {
      if (together().is_first())
        return write_safetensors(
            file, tensors_of(content), facts,
            [&](const safetensors_entry& e, safetensors_sink& target) { source(e, target); }, files_);
      source.read_all(place_tensors(tensors_of(content), {}, file));
    });
    point(collective_kind::save, 1);
  }

  /// `facts` holds this training's facts, and receives the checkpoint's. A model alone leaves them unchanged.
  GPIPE_COLD load_result load(const std::string& path, const load_options& options, checkpoint_facts& facts) const {
    agree(collective_kind::load, path, options);
    load_result result;
    opened source;
    together().together([&] { source = open(path, options, facts, result); });
    point(collective_kind::load, 1);
    values_before before(run_);
    try {
      together().together([&] {
        for (const loaded_array& loaded : source.arrays) copy_in(loaded, !source.whole, before);
      });
      point(collective_kind::load, 2);
    } catch (...) {
      before.put_back();
      throw;
    }
    run_.restore(source.whole ? source.facts.steps : run_.steps(), source.whole ? source.facts.seed : run_.seed());
    if (source.whole) facts = source.facts;
    result.steps = run_.steps();
    result.seed = run_.seed();
    result.position = source.facts.position;
    return result;
  }

 private:
  struct contents {
    file_list model, optimizer;
    safetensors_metadata of_model;
    checkpoint_facts facts;
  };
  /// The files and arrays that `load` has checked, before it writes an array.
  struct opened {
    std::deque<safetensors_set> sets{};
    std::vector<loaded_array> arrays{};
    checkpoint_facts facts{};
    bool whole = false;  // with the optimizer
  };

  const collective_calls& together() const { return run_.together(); }
  static safetensors_metadata model_facts(const std::string& layout, const safetensors_metadata& texts) {
    safetensors_metadata facts = texts;
    facts["format"] = "pt";
    if (!layout.empty()) facts["gpipe.layout"] = layout;
    return facts;
  }
  /// Whether a text of a file belongs to the library, and not to the user.
  static bool is_own_text(std::string_view name) { return name == "format" || name.starts_with("gpipe."); }

  GPIPE_COLD void agree(collective_kind kind, const std::string& path, const load_options& options = {},
                        const safetensors_metadata& texts = {}) const {
    const auto add = [](hash& sum, const std::string& text) {
      sum.add(reinterpret_cast<const std::byte*>(text.c_str()), text.size() + 1);
    };
    hash name, of_texts;
    name.add(reinterpret_cast<const std::byte*>(path.data()), path.size());
    for (const auto& [key, text] : texts) add(of_texts, key), add(of_texts, text);
    together().agree_to(kind, {{"the path", name.value()},
                               agreed_value::number("the step", static_cast<std::int64_t>(run_.steps())),
                               {"the names in the file", hash_of(options.names)},
                               {"the texts", of_texts.value()},
                               agreed_value::number("the mode", static_cast<int>(options.mode)),
                               agreed_value::number("the layout", static_cast<int>(options.layout)),
                               agreed_value::number("allow_older", options.allow_older)});
  }
  void point(collective_kind kind, int number) const {
    together().agree_to(kind, {agreed_value::number("the point of the call", number)});
  }
  GPIPE_COLD static void require_valid_texts(const safetensors_metadata& texts) {
    for (const auto& [name, text] : texts)
      if (name.empty() || is_own_text(name))
        throw_error({"a text has the name ", detail::quoted(name)},
                    {"choose a name that is not empty, not format, and does not begin with gpipe."});
  }
  GPIPE_COLD static void require_valid(const save_options& options) {
    require_valid_texts(options.texts);
    if (options.keep < 1) throw_error({"keep is ", options.keep}, {"choose at least 1"});
    if (options.max_file_bytes == 0) throw_error({"max_file_bytes is 0"}, {"choose a size, such as 4 << 30"});
    if (options.position.batch < 0)
      throw_error({"the position's batch is ", options.position.batch}, {"choose 0 or more"});
    if (options.position.batch_size < 0 || options.position.samples < 0)
      throw_error({"the position's batch_size is ", options.position.batch_size, ", its samples are ",
                   options.position.samples},
                  {"choose 0 or more"});
  }

  GPIPE_COLD contents contents_of(const save_options& options, const checkpoint_facts& facts) const {
    const step_plan& plan = run_.plan();
    const auto rank_of = [&](const stored_array& array) { return run_.rank_of(array.location.layer_index); };
    const std::vector<stored_array> model = model_arrays(run_.net());
    return {deal_arrays("model", in_file(model, {}, "", options.layout), options.max_file_bytes, rank_of),
            deal_arrays("optimizer", optimizer_state(run_.net(), plan.options), options.max_file_bytes, rank_of),
            model_facts(layout_text(model, {}, options.layout), options.texts), facts};
  }
  array_reader reader() const {
    return [this](const stored_array& array, std::size_t offset, std::span<std::byte> target) {
      together().working("save");
      run_.read_here(array.location.part(offset, target.size()), target.data());
    };
  }
  /// Copies all arrays. The returned function reads the copy.
  GPIPE_COLD array_reader copied(const contents& content, array_copy& copy) const {
    auto locations = std::make_shared<std::map<std::string_view, std::size_t>>();
    const auto for_each = [&](auto&& visit) {
      std::size_t offset = 0;
      for (const file_list* list : {&content.model, &content.optimizer})
        for (const checkpoint_file& file : list->files)
          for (const stored_array& array : file.arrays) visit(array, offset), offset += aligned(array.location.bytes);
      return offset;
    };
    copy.reserve(for_each([](auto&, std::size_t) {}));
    for_each([&](const stored_array& array, std::size_t offset) {
      run_.read_here(array.location, copy.bytes.get() + offset);
      locations->emplace(array.name, offset);
    });
    return [locations, bytes = copy.bytes.get()](const stored_array& array, std::size_t offset,
                                                 std::span<std::byte> target) {
      std::copy_n(bytes + locations->at(array.name) + offset, target.size(), target.data());
    };
  }

  GPIPE_COLD void write_files(const std::string& part, int rank, const contents& content,
                              const array_reader& read) const {
    write_arrays(part, content.model, rank, content.facts.steps, content.of_model, read, files_);
    write_arrays(part, content.optimizer, rank, content.facts.steps, content.facts.texts(), read, files_);
  }
  GPIPE_COLD void complete(checkpoint_folder& folder, const std::string& part, int keep,
                           const contents& content) const {
    for (const file_list* list : {&content.model, &content.optimizer})
      if (list->has_index()) write_safetensors_index_directly(part + '/' + list->index_name(), index_of(*list), files_);
    const auto step = static_cast<long>(content.facts.steps);
    folder.commit(step);
    folder.keep_newest(step, keep);
  }
  /// Writes a checkpoint. A thread in the background may call it, if there is one process.
  GPIPE_COLD void write(const std::string& path, int keep, const contents& content, const array_reader& read) const {
    checkpoint_folder folder(path, files_);
    const auto step = static_cast<long>(content.facts.steps);
    const std::string part = folder.part_path(step);
    const auto once = [&](auto&& call, int number) {
      together().together([&] {
        if (together().is_first()) call();
      });
      point(collective_kind::save, number);
    };
    try {
      once([&] { folder.begin(step); }, 1);
      together().together([&] {
        if (!together().is_first() && files_.kind_of(part.c_str()) != file_operations::kind::folder)
          throw error("rank 0 has made this folder, and it is not here",
                      "save into a folder that all hosts see, such as one of a shared file system", {.file = part});
        write_files(part, run_.rank(), content, read);
      });
      point(collective_kind::save, 2);
      once([&] { complete(folder, part, keep, content); }, 3);
    } catch (...) {
      if (together().is_first()) folder.abandon(step);
      throw;
    }
  }

  // change: a checkpoint file format
  GPIPE_COLD opened open(const std::string& path, const load_options& options, const checkpoint_facts& current,
                         load_result& result) const {
    opened source;
    result.path = path;
    if (files_.kind_of(path.c_str()) == file_operations::kind::none)
      throw error("there is no such file or folder", "give a folder or a .safetensors file that save has written",
                  {.file = path});
    if (files_.kind_of((path + "/.").c_str()) != file_operations::kind::folder) {  // a link to a folder is one
      source.sets.emplace_back(path, files_);
    } else {
      if (!is_checkpoint(path)) {
        found_checkpoint newest = newest_checkpoint(path, files_);
        result.skipped = std::move(newest.skipped);
        if (newest.path.empty())
          throw error(result.skipped.empty() ? "the folder has no checkpoint"
                                             : concat({"the folder has no whole checkpoint: ", result.skipped.front()}),
                      "give a folder that save has written", {.file = path});
        if (!result.skipped.empty() && !options.allow_older) throw_newer(newest.path, result.skipped, path);
        result.path = newest.path;
      }
      source.sets.push_back(open_set(result.path, "model", files_));
      if (options.mode == load_mode::exact && run_.plan().trains && has(result.path, "optimizer")) {
        if (options.names != name_map{})
          throw error("names are given, but the checkpoint is one of this library", "load it without names",
                      {.file = result.path});
        source.sets.push_back(open_set(result.path, "optimizer", files_));
      }
    }
    for (const auto& [name, text] : source.sets.front().metadata())
      if (!is_own_text(name)) result.texts.emplace(name, text);
    source.whole = source.sets.size() == 2;
    require_one_step(source.sets);
    take(source, source.sets[0], model_arrays(run_.net()), options, result);
    require_equal_twins(source.arrays, [this] { together().working("load"); });
    if (!source.whole && options.mode == load_mode::exact) {
      const std::size_t slash = source.sets[0].path().rfind('/');
      require_config(run_.net(), slash == std::string::npos ? "." : source.sets[0].path().substr(0, slash), files_);
    }
    if (!source.whole) return source;
    source.facts = read_facts(source.sets[1].metadata(), source.sets[1].path());
    if (source.facts.optimizer != current.optimizer)
      throw_error(
          {"the checkpoint is of the optimizer ", source.facts.optimizer, ", but this one is ", current.optimizer},
          {"train with that optimizer, or load the model alone: ", result.path, "/model.safetensors"},
          {.file = source.sets[1].path()});
    require_averages(source.sets[1]);
    if (source.facts.frozen) result.frozen = frozen_paths(run_.net(), *source.facts.frozen, source.sets[1].path());
    take(source, source.sets[1], optimizer_state(run_.net(), run_.plan().options), {}, result);
    return source;
  }
  /// Resuming from an older checkpoint in silence would lose the steps since. A crash never leads here: a checkpoint
  /// gets its name when it is complete.
  [[noreturn]] GPIPE_COLD static void throw_newer(const std::string& older, const std::vector<std::string>& skipped,
                                                  const std::string& folder) {
    const std::string_view newest = skipped.front();
    const std::size_t colon = newest.find(':');
    throw_error({"the newest checkpoint, ", newest.substr(0, colon), ", cannot be read", newest.substr(colon),
                 skipped.size() > 1 ? concat({"; ", skipped.size() - 1, " more cannot be read"}) : "",
                 "; the newest one that can is ", older},
                {"repair or delete what cannot be read, load ", detail::quoted(older), ", or set allow_older"},
                {.file = folder});
  }
  /// Averaged weights can be neither invented nor dropped in silence.
  GPIPE_COLD void require_averages(const safetensors_set& optimizer) const {
    const bool averages = run_.plan().options.average_weights;
    const auto average = [](const auto& tensor) { return tensor.first.ends_with(".average"); };
    if (averages == std::any_of(optimizer.tensors().begin(), optimizer.tensors().end(), average)) return;
    throw_error({averages ? "average_weights is set, but the checkpoint has no averaged weights"
                          : "average_weights is 0, but the checkpoint has averaged weights"},
                {averages ? "set average_weights to 0" : "set average_weights",
                 ", or load the model alone: its file model.safetensors"},
                {.file = optimizer.path()});
  }
  /// The folder is itself a checkpoint, or has a model of another program.
  bool is_checkpoint(const std::string& folder) const { return has(folder, "model"); }
  bool has(const std::string& folder, const char* stem) const {
    const std::string file = folder + '/' + stem + ".safetensors";
    return files_.kind_of(file.c_str()) != file_operations::kind::none ||
           files_.kind_of((file + ".index.json").c_str()) != file_operations::kind::none;
  }
  GPIPE_COLD void take(opened& source, const safetensors_set& set, const std::vector<stored_array>& arrays,
                       const load_options& options, load_result& result) const {
    std::vector<const safetensors_set::tensor_location*> locations;
    std::vector<found_array> found;
    for (const auto& [name, location] : set.tensors()) {
      locations.push_back(&location);
      found.push_back({name, location.entry->shape});
    }
    const std::string prefix = prefix_of(found, options.names);
    std::string undecided;
    const file_layout layout = layout_of(options.layout, set, found, arrays, options.names, prefix, undecided);
    std::vector<stored_array> wanted = in_file(arrays, options.names, prefix, layout);
    array_match match = match_arrays(wanted, found);
    forgive_counters(match.report);
    forgive_names(match.report, wanted, options.names, prefix);
    if (options.mode == load_mode::exact && !match.exact()) throw_misfit(match.report, set.path());
    if (!undecided.empty()) throw_undecided(undecided, set.path());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (match.found[i] < 0) continue;
      const auto* location = locations[static_cast<std::size_t>(match.found[i])];
      require_convertible(location->entry->type, location->entry->name, location->file->path());
      if (run_.has_here(wanted[i].location.layer_index)) source.arrays.push_back({std::move(wanted[i]), location});
    }
    if (&set == &source.sets.front()) static_cast<load_report&>(result) = std::move(match.report);
  }

  // A model alone has no moving averages: they start from its parameters.
  GPIPE_COLD void copy_in(const loaded_array& loaded, bool model_alone, values_before& before) const {
    const array_location& location = loaded.array.location;
    const bool averages =
        model_alone && location.kind == memory_kind::parameters && run_.plan().options.average_weights;
    before.keep(location);
    if (averages) before.keep(location.in(memory_kind::averages));
    read_array(loaded, [&](std::size_t offset, std::span<const std::byte> block) {
      together().working("load");
      const array_location part = location.part(offset, block.size());
      run_.write_here(part, block.data());
      if (averages) run_.write_here(part.in(memory_kind::averages), block.data());
    });
  }

  run_type& run_;
  file_operations& files_;
};

}  // namespace gpipe::detail
