// expect: a plan has at most as many stages as the model has layers .Stages, Layers.
// expect: a_layer_for_each_stage<4, 3, false>
// expect: a plan's first argument is a model
// expect: model_of_a_plan<int, false>
// expect: a model's first argument is its input, and here it is another item: write model<input<float, 64>, ...>
// expect: model_begins_with_its_input<gpipe::linear<10>, false>
// expect: a model computes in bf16 only if its input does
// expect: precision_enters_with_the_input<
// expect: a plan's options are stages<S>, micro_batches<M>, micro_batch_size<B>, recompute<mode>, schedule<type>
// expect: option_of_a_plan<int, false>
// expect: optimizer<type> needs an? optimizer, such as
// expect: optimizer_of_a_plan<int, false>
// expect: schedule<type> needs an? schedule, such as
// expect: schedule_of_a_plan<int, false>
// expect: a searched schedule is found at run time
// expect: schedule_is_searched_at_run_time<gpipe::searched_schedule, false>
// expect: zb_v, dual_pipe_v, v_half and v_min admit an even number of stages
// expect: schedule_admits<3, 4, gpipe::broken::admitted_stages<2, 4>, gpipe::broken::admitted_micro_batches<>, false>
// expect: the schedule has work for fewer workers .Workers, MaxWorkers.
// expect: workers_have_work<4, 3, false>
// expect: on_devices<...> names a device for every stage .Stages, Devices.
// expect: every_stage_has_a_device<3, 2, false>
// expect: with_shared_packed_weights and with_kept_packed_weights contradict each other: choose one
// expect: a cut names the first layer of every stage but the first .Stages, Layers.
// expect: cut_has_a_layer_for_each_stage<2, 2, false>
// expect: a cut names ascending layers of the model, and no stage is empty .Stage, its First layer, the End of
// expect: cut_ascends<1, 2, 1, false>
// errors: 14
#include <gpipe/layer.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
template <class Input>
struct classifier : model<Input, linear<10>, softmax_cross_entropy> {};

#ifdef GPIPE_FAIL
constexpr int stages_of[] = {plan<net, stages<4>>::S,
                             plan<int, stages<2>, micro_batches<3>>::S,
                             plan<model<linear<10>, softmax_cross_entropy>, stages<1>>::S,
                             plan<classifier<input<double, 8>>, stages<2>, precision_is<precision::bf16>>::S,
                             plan<net, stages<2>, int, micro_batches<3>>::S,
                             plan<net, stages<2>, optimizer<int>>::S,
                             plan<net, stages<2>, schedule<int>>::S,
                             plan<net, stages<2>, schedule<searched_schedule>>::S,
                             plan<net, stages<3>, micro_batches<4>, schedule<zb_v>>::S,
                             plan<net, stages<3>, micro_batches<2>, workers<4>>::S,
                             plan<net, stages<3>, on_devices<h100, l4>>::S,
                             plan<net, stages<2>, with_shared_packed_weights, with_kept_packed_weights>::S,
                             plan<net, cut_at<1, 2>, stages<2>>::S,
                             plan<net, cut_at<2, 1>>::S};
#else
constexpr int stages_of[] = {plan<net, stages<3>>::S,
                             plan<net, stages<2>, micro_batches<3>>::S,
                             plan<classifier<input<float, 64>>, stages<1>>::S,
                             plan<classifier<input<float, 8>>, stages<2>, precision_is<precision::bf16>>::S,
                             plan<net, stages<2>, optimizer<sgd>>::S,
                             plan<net, stages<2>, schedule<one_f_one_b>>::S,
                             plan<net, stages<2>, micro_batches<4>, schedule<zb_v>>::S,
                             plan<net, stages<3>, micro_batches<2>, workers<2>>::S,
                             plan<net, stages<2>, on_devices<h100, l4>>::S,
                             plan<net, stages<2>, with_kept_packed_weights>::S,
                             plan<net, cut_at<1, 2>, stages<3>>::S,
                             plan<net, cut_at<1, 2>>::S};
#endif
