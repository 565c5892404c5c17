#include <gpipe/plan/summary.hpp>

#include <doctest/doctest.h>

#include <utility>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 64>, linear<64>, relu, linear<64>, relu> {};
using two = plan<net, stages<2>, micro_batches<4>, micro_batch_size<8>, optimizer<adam>>;

struct own : one_f_one_b {
  static constexpr const char* name() { return "my own"; }
};

}  // namespace

TEST_CASE("times are in milliseconds, and long ones in seconds") {
  CHECK(time_text(0) == "0 ms");
  CHECK(time_text(613'123'000'000) == "613.1 ms");
  CHECK(time_text(9'999'000'000'000) == "9999 ms");
  CHECK(time_text(37'874'000'000'000) == "37.87 s");
  CHECK(time_text(123'456'000'000'000'000) == "123456 s");
}

TEST_CASE("a plan prints itself, made at compile time or at run time") {
  const std::string text = describe<two>();
  CHECK(describe(two{}) == text);
  CHECK(text.find("stage  layers        from    to   share  parameters") == 0);
  CHECK(text.find("\n    0     0-1  linear<64>  relu  50.0 %      4.16 k") != std::string::npos);
  CHECK(text.find("fill-drain, 4 micro-batches of at most 8 samples, recompute as-needed: bubble 20.0 %") !=
        std::string::npos);
  CHECK(text == describe(network_of<net>, make_plan(network_of<net>, two::options)));
}

TEST_CASE("the text says when the stages pack their weights") {
  const auto last_line = [](const network& of, const plan_options& o) {
    const std::string text = describe(of, make_plan(of, o));
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  const plan_options o{.stages = 2, .micro_batches = 2, .micro_batch_size = 8};
  CHECK(last_line(network_of<net>, o) == "packed weights, 32 KiB: in turn\n");
  plan_options other = o;
  other.schedule = schedule_kind::one_f_one_b;
  CHECK(last_line(network_of<net>, other) == "packed weights, 48 KiB: in turn in stage 0, kept in stage 1\n");
  other.share_packed_weights = true;
  CHECK(last_line(network_of<net>, other) == "packed weights, 32 KiB: on the way\n");
  other = o;
  other.micro_batch_size = 1024;
  CHECK(last_line(network_of<net>, other) ==
        "packed weights, 32 KiB: in turn, and on the way in 2 layers with many rows\n");
  struct without : model<input<float, 64>, relu, relu> {};
  CHECK(last_line(network_of<without>, {}).find("memory of all stages") == 0);
}

TEST_CASE("long options of a layer are left out of the table") {
  struct smoothed
      : model<input<float, 64>, linear<64>, softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1, .clip = 30}>> {};
  const std::string text = describe<plan<smoothed, stages<1>, micro_batches<1>, micro_batch_size<1>>>();
  CHECK(text.find(" linear<64>  softmax_cross_entropy_with<...> ") != std::string::npos);
}

TEST_CASE("a plan with a profile names it, and predicts the step time") {
  // Forward 1 us, backward 2 us in each half: 4 + 1 ticks of 3 us, and of recompute what is not hidden.
  constexpr measured_layer lines[] = {
      {0, "linear", 500, 500, 500}, {1, "relu", 500, 1000, 0}, {2, "linear", 500, 500, 500}, {3, "relu", 500, 1000, 0}};
  plan_options options = two::options;
  options.profile = {lines, 4, 8};
  options.recompute = recompute_mode::never;
  const step_plan plan = make_plan(network_of<net>, options);
  CHECK(step_time(network_of<net>, plan) == 15'000'000);
  CHECK(describe(network_of<net>, plan).find("predicted step time: 0.015 ms by its profile; ") != std::string::npos);
}

TEST_CASE("the text names the number of micro-batches whose gradients are computed together") {
  using as_asked = plan<net, stages<2>, micro_batches<4>, recompute<recompute_mode::never>, group_gradients<2>>;
  using fewer = plan<net, stages<2>, micro_batches<4>, recompute<recompute_mode::never>, group_gradients<8>>;
  struct wide : model<input<float, 256>, linear<256>, relu, linear<256>> {};
  using chosen = plan<wide, stages<2>, micro_batches<8>, micro_batch_size<64>, recompute<recompute_mode::never>>;
  const auto named = [](const std::string& text, int group) {
    return text.find("recompute never, group_gradients " + std::to_string(group) + ": bubble") != std::string::npos;
  };
  CHECK(named(describe<as_asked>(), 2));
  CHECK(named(describe(network_of<net>, make_plan(network_of<net>, as_asked::options)), 2));
  CHECK(named(describe<fewer>(), 4));
  CHECK(named(describe(network_of<net>, make_plan(network_of<net>, fewer::options)), 4));
  CHECK(named(describe<chosen>(), 4));
  CHECK(named(describe(network_of<wide>, make_plan(network_of<wide>, chosen::options)), 4));
  CHECK(describe<two>().find("group_gradients") == std::string::npos);
}

TEST_CASE("the text describes a custom schedule and a custom cut") {
  using mine = plan<net, cut_at<1>, micro_batches<4>, schedule<own>>;
  const std::string text = describe<mine>();
  CHECK(text.find("my own, 4 micro-batches") != std::string::npos);
  CHECK(text.find("\n    1     1-3") != std::string::npos);
  CHECK(text.find(" % above the optimum; its step is ") != std::string::npos);
  const plan_options o = two::options;
  CHECK(describe(network_of<net>, make_plan(network_of<net>, o, {1})).find(" % above the optimum\n") !=
        std::string::npos);
  CHECK(describe(network_of<net>, make_plan(network_of<net>, o, {2})).find("\nthe cut is the optimum\n") !=
        std::string::npos);
}

TEST_CASE("the text says the optimum only where that is proven") {
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 8, .recompute = recompute_mode::always};
  const auto text = [&](const std::vector<int>& by_hand = {}) {
    const std::string all = describe(network_of<net>, make_plan(network_of<net>, o, by_hand));
    const std::size_t at = all.find("\nthe cut") + 1;
    return all.substr(at, all.find('\n', at) - at);
  };
  CHECK(text() == "the cut is the optimum");
  CHECK(text({3}).find(" % above the optimum") != std::string::npos);
  o.memory_limit = 1'000'000;
  CHECK(text() == "the cut is the optimum within the memory limit");
  o.device.memory_limit = std::exchange(o.memory_limit, no_memory_limit);
  CHECK(text() == "the cut is the optimum within the memory limit");
  std::swap(o.device.memory_limit, o.memory_limit);
  o.schedule = schedule_kind::one_f_one_b;
  CHECK(text({3}).find(" % above the shortest of all 3 cuts within the memory limit") != std::string::npos);

  cut_quality v{.step = 110, .min = 100};
  const detail::distance optimum{1, 1};
  o.schedule = schedule_kind::fill_drain;
  v.whole = false;
  CHECK(detail::quality_text(network_of<net>, o, v, nullptr) ==
        "the cut is at most 10.0 % above the optimum within the memory limit; "
        "the search within the limit stopped after 32768 partial cuts");
  struct deep : model<input<float, 8>, repeat<33, linear<8>, relu>> {};
  plan_options probed = o;
  probed.recompute = recompute_mode::as_needed;
  CHECK(detail::quality_text(network_of<deep>, probed, v, nullptr) ==
        "the cut is at most 10.0 % above the optimum within the memory limit; "
        "a cut of more than 64 layers that may run again is probed, not searched");
  const cut_quality limited{.step = 100, .min = 100, .free = 80, .proven = true};
  CHECK(detail::quality_text(network_of<net>, o, limited, nullptr) ==
        "the cut is the optimum within the memory limit, which is 25.0 % above that without");
  o.memory_limit = no_memory_limit;
  o.schedule = schedule_kind::one_f_one_b;
  v.whole = true;
  CHECK(detail::quality_text(network_of<net>, o, v, &optimum) ==
        "the cut's bottleneck is the optimum; its step is at most 10.0 % above the shortest of any cut");
}

TEST_CASE("the text names the objective of the cut") {
  CHECK(describe<two>().find("\nthe cut is the optimum\n") != std::string::npos);
  using taking_turns = plan<net, stages<2>, micro_batches<4>, schedule<one_f_one_b>>;
  CHECK(describe<taking_turns>().find("\nthe cut's bottleneck is the optimum; its step is ") != std::string::npos);
  using on_links = plan<net, stages<2>, micro_batches<4>, with_transfers>;
  CHECK(describe<on_links>().find("\nthe cut's bottleneck is the optimum; its step is ") != std::string::npos);
}

TEST_CASE("the text names every other option that is not its default") {
  using some = plan<net, stages<2>, micro_batches<4>, workers<1>, memory_limit<1_GiB>>;
  CHECK(describe<some>().find("recompute as-needed, workers 1, memory_limit 1073741824: bubble") != std::string::npos);
}

TEST_CASE("the number one has a singular noun") {
  const std::string text = describe<plan<net, micro_batch_size<1>>>();
  CHECK(text.find("fill-drain, 1 micro-batch of at most 1 sample, ") != std::string::npos);
}

TEST_CASE("a plan says where a choice of shares does not do what its name says") {
  const auto described = [](plan_options options) {
    options.micro_batch_size = 8;
    return describe(network_of<net>, make_plan(network_of<net>, options));
  };
  const auto says = [&](const plan_options& options, const char* text) {
    return described(options).find(text) != std::string::npos;
  };
  CHECK(says({.shard = shard::optimizer_state}, "\nshard optimizer-state does nothing: there is one replica\n"));
  CHECK(says({.micro_batches = 4, .replicas = 2, .shard = shard::gradients},
             "\ngradients are whole in every replica until the step's last backward: 4 micro-batches add to them one "
             "after the other\n"));
  CHECK(says({.replicas = 2, .shard = shard::gradients}, ", shard gradients: bubble"));
  CHECK(!says({.replicas = 2, .shard = shard::gradients}, "gradients are whole"));
  CHECK(!says({.micro_batches = 4,
               .recompute = recompute_mode::never,
               .replicas = 2,
               .shard = shard::gradients,
               .group_gradients = 4},
              "gradients are whole"));
  CHECK(!says({.micro_batches = 4, .replicas = 2, .shard = shard::optimizer_state}, "gradients are whole"));
}

TEST_CASE("the table says which layers of a stage run again, if any does, and their share of its time") {
  struct blocks : model<input<float, 8>, named<"h", repeat<2, linear<16>, relu, linear<8>>>, linear<4>> {};
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 8};
  CHECK(describe(network_of<blocks>, make_plan(network_of<blocks>, o)).find("recomputed") == std::string::npos);
  o.recompute_layers = {"h.0.1"};
  const std::string text = describe(network_of<blocks>, make_plan(network_of<blocks>, o, {3}));
  CAPTURE(text);
  const auto line = [&](int number) {
    std::size_t at = 0;
    for (; number > 0; --number) at = text.find('\n', at) + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  CHECK(line(0).ends_with("memory       recomputed  run again"));
  CHECK(line(1).find("  1 layer, ") != std::string::npos);
  CHECK(line(1).ends_with(" %      h.0.1"));
  CHECK(line(2).ends_with("  none"));
  CHECK(line(3).find(", recompute of listed layers") != std::string::npos);
}

TEST_CASE("the table names the first layers that run again, by short paths") {
  struct blocks : model<input<float, 8>, named<"h", repeat<4, linear<16>, relu, linear<8>>>,
                        named<"a_group_with_a_long_name", sequence<linear<8>, relu>>, linear<4>> {};
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 8, .recompute_layers = {"h.*.1"}};
  const auto described = [&] { return describe(network_of<blocks>, make_plan(network_of<blocks>, o, {9})); };
  CHECK(described().find(" %  h.0.1, h.1.1 and 1 more\n    1") != std::string::npos);
  CHECK(described().find(" %                    h.3.1\n") != std::string::npos);
  o.recompute_layers = {"relu"};
  CHECK(described().find(" %  h.3.1, a_group_w..._long_name.1\n") != std::string::npos);
  using compiled = plan<blocks, cut_at<9>, micro_batches<4>, micro_batch_size<8>, recompute_layers<"relu">>;
  CHECK(describe<compiled>() == described());
}

TEST_CASE("the text says which patterns of listed layers recompute nothing") {
  // Backward of a relu reads its output: what the linear layers write is read by no backward.
  struct blocks : model<input<float, 8>, named<"h", repeat<2, linear<16>, relu, linear<8>>>, linear<4>> {};
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 8};
  const auto described = [&] { return describe(network_of<blocks>, make_plan(network_of<blocks>, o, {3})); };
  const auto note = [](const std::string& pattern) {
    return "\nthe pattern \"" + pattern +
           "\" of recompute_layers recomputes nothing: neither backward nor a recompute of the same stage reads what "
           "these "
           "layers write\n";
  };
  CHECK(described().find("recomputes nothing") == std::string::npos);
  o.recompute_layers = {"relu", "h.*.0", "h.*.2"};
  CAPTURE(described());
  CHECK(described().find(note("relu")) == std::string::npos);
  CHECK(described().find(note("h.*.0")) == std::string::npos);  // the relu behind it runs again and reads it
  CHECK(described().find(note("h.*.2")) == std::string::npos);  // the next linear layer reads it for its gradient
  o.recompute_layers = {"h.*.0"};
  CHECK(described().find(note("h.*.0")) != std::string::npos);
  CHECK(described().find("run again") == std::string::npos);
  o.schedule = schedule_kind::forward_only;
  CHECK(described().find("\nrecompute_layers does nothing: forward-only has no backward\n") != std::string::npos);
  CHECK(described().find("recomputes nothing") == std::string::npos);
}

TEST_CASE("the table says how many whole micro-batches a stage runs again because of a limit") {
  // Products alone: no layer is cheaper to run again than a micro-batch.
  struct products : model<input<float, 8>, linear<8>, linear<8>, linear<8>, linear<8>> {};
  plan_options o{.stages = 2, .micro_batches = 8, .micro_batch_size = 32, .recompute = recompute_mode::never};
  o.keep_packed_weights = true;
  o.group_gradients = 1;
  const step_plan never = make_plan(network_of<products>, o, {2});
  const stage_memory& first = never.memory(0);
  REQUIRE(first.kept_set > 0);
  CHECK(describe(network_of<products>, never).find("recomputed") == std::string::npos);
  o.recompute = recompute_mode::always;  // says it in the sentence
  CHECK(describe(network_of<products>, make_plan(network_of<products>, o, {2})).find("recomputed") ==
        std::string::npos);
  o.recompute = recompute_mode::as_needed;
  o.memory_limit = first.total() - 3 * first.kept_set;  // three sets fewer, so three micro-batches again
  const step_plan limited = make_plan(network_of<products>, o, {2});
  REQUIRE(limited.requirements(0).kept_copies == 5);
  const std::string text = describe(network_of<products>, limited);
  CAPTURE(text);
  CHECK(text.find("recomputed") != std::string::npos);
  CHECK(text.find("3 of 8 micro-batches, 1") != std::string::npos);
  CHECK(text.find("2 of 8 micro-batches, ") != std::string::npos);
}
