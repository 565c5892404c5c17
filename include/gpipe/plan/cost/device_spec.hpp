#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/units.hpp>

namespace gpipe {

/// The shares of a GPU's rate that gpipe's kernels reach, in thousandths, of one type's operations.
struct counted_shares {
  int product = 0;  ///< 0: not counted
  int attention = 0, attention_backward = 0;
  int convolution = 0, convolution_weight = 0;  ///< the last: of the weight's gradient
};

// change: a device data sheet
/// The peak rates of a device and its link to the next one, from the vendor's data sheet, for the analytic cost.
/// No kernel reaches them, but a partition needs only ratios. Where kernels were counted, their shares of the rates are
/// here, too: then a kernel takes as long as its operations or its bytes, whichever takes longer; else both are added.
struct device_spec {
  const char* name = "";
  std::int64_t float32 = 0, float64 = 0;  ///< floating-point operations per second by type, without matrix units
  std::int64_t half = 0;                  ///< for 16-bit types, on matrix units if there are any; 0: unknown
  std::int64_t memory_bytes_per_second = 0;
  std::int64_t link_bytes_per_second = 0;  ///< one direction
  std::int64_t link_latency_ns = 0;        ///< of one transfer of any size
  std::int64_t launch_ns = 0;              ///< of one kernel launch
  std::int64_t memory_bytes = 0;
  counted_shares half_shares{}, float32_shares{};  ///< of `half` and `float32`
  /// Of a measured device (see `device_fit`): operations per second of convolutions, and of layers that are neither
  /// product nor convolution, by any type; bytes of parameters that a kernel reads. 0: as products, as memory.
  std::int64_t convolution = 0, other = 0, parameter_bytes_per_second = 0;
  /// Bytes of the memory that a plan may use; by default there is no limit. See `plan_options::limit_of`.
  std::int64_t memory_limit = (std::numeric_limits<std::int64_t>::max)();
  /// The process of a replica that has the device, from 0 on, in a job. Negative: each process gets as many workers.
  int process = -1;

  constexpr counted_shares shares(dtype type) const {
    // assumes: half precision is bf16
    return type == dtype::bf16 ? half_shares : type == dtype::float32 ? float32_shares : counted_shares{};
  }
  constexpr std::int64_t flops_per_second(dtype type) const {
    return type == dtype::float64 ? float64 : type == dtype::bf16 ? half : float32;
  }
  /// The same device with a limit of its memory: `l4.with_limit(20_GiB)`.
  constexpr device_spec with_limit(std::int64_t bytes) const {
    device_spec d = *this;
    d.memory_limit = bytes;
    return d;
  }
  /// The same device in a process of its replica: `h100.in_process(1)`.
  constexpr device_spec in_process(int number) const {
    device_spec d = *this;
    d.process = number;
    return d;
  }
  /// The same device when float32 layers compute in 16 bits.
  constexpr device_spec in_half() const {
    device_spec d = *this;
    d.float32 = half;
    d.float32_shares = half_shares;
    return d;
  }
};

namespace detail {

inline constexpr std::int64_t giga = 1'000'000'000;

// Data sheets do not have these, so they are the same for all: a transfer starts in 10 us, a kernel in 4 us.
constexpr device_spec gpu(const char* name, std::int64_t float32_giga, std::int64_t float64_giga,
                          std::int64_t half_giga, std::int64_t memory_giga, std::int64_t link_giga,
                          std::int64_t memory_bytes, counted_shares half = {}, counted_shares float32 = {}) {
  return {.name = name,
          .float32 = float32_giga * giga,
          .float64 = float64_giga * giga,
          .half = half_giga * giga,
          .memory_bytes_per_second = memory_giga * giga,
          .link_bytes_per_second = link_giga * giga,
          .link_latency_ns = 10'000,
          .launch_ns = 4'000,
          .memory_bytes = memory_bytes,
          .half_shares = half,
          .float32_shares = float32};
}

// By `bash bench/run gpu_counts`: attention of 8 x 1,024 tokens in 12 heads of width 64, causal; convolutions of 3 x 3
// and 64 channels. Products are cuBLASLt's: a guess.
inline constexpr counted_shares a100_shares{600, 820, 503, 687, 489}, h100_shares{600, 502, 316, 372, 250};
inline constexpr counted_shares a100_float_shares{600, 765, 571, 235, 149}, h100_float_shares{600, 391, 292, 128, 91};

}  // namespace detail

//                                             float32  float64     half  memory  link         memory
//                                              Gflop/s  Gflop/s  Gflop/s   GB/s  GB/s          bytes
inline constexpr device_spec p100 = detail::gpu("P100 SXM2", 10'600, 5'300, 21'200, 732, 80, 16_GB);
inline constexpr device_spec v100_16gb = detail::gpu("V100 SXM2 16 GB", 15'700, 7'800, 125'000, 900, 150, 16_GB);
inline constexpr device_spec v100_32gb = detail::gpu("V100 SXM2 32 GB", 15'700, 7'800, 125'000, 900, 150, 32_GB);
inline constexpr device_spec a100_40gb = detail::gpu("A100 SXM 40 GB", 19'500, 9'700, 312'000, 1'555, 300, 40_GB,
                                                     detail::a100_shares, detail::a100_float_shares);
inline constexpr device_spec a100_80gb = detail::gpu("A100 SXM 80 GB", 19'500, 9'700, 312'000, 2'039, 300, 80_GB,
                                                     detail::a100_shares, detail::a100_float_shares);
inline constexpr device_spec h100 =
    detail::gpu("H100 SXM", 67'000, 34'000, 989'000, 3'350, 450, 80_GB, detail::h100_shares, detail::h100_float_shares);
inline constexpr device_spec h200 = detail::gpu("H200 SXM", 67'000, 34'000, 989'000, 4'800, 450, 141_GB,
                                                detail::h100_shares, detail::h100_float_shares);
inline constexpr device_spec l4 = detail::gpu("L4", 30'300, 473, 121'000, 300, 32, 24_GB);

// One of the two cores of a chip; the paper calls a core a device. A float32 product runs in bfloat16, and there is no
// float64. (Jouppi et al., "A domain-specific supercomputer for training deep neural networks", 2020.)
inline constexpr device_spec tpu_v2_core = detail::gpu("TPU v2 core", 23'000, 0, 23'000, 350, 62, 8_GB);
inline constexpr device_spec tpu_v3_core = detail::gpu("TPU v3 core", 61'500, 0, 61'500, 450, 82, 16_GB);

/// One core of a current CPU; neighbouring stages share its memory. bf16 has the rate of float32.
inline constexpr device_spec this_cpu{.name = "this CPU",
                                      .float32 = 60 * detail::giga,
                                      .float64 = 30 * detail::giga,
                                      .half = 60 * detail::giga,
                                      .memory_bytes_per_second = 20 * detail::giga,
                                      .link_bytes_per_second = 20 * detail::giga,
                                      .link_latency_ns = 200,
                                      .launch_ns = 100,
                                      .memory_bytes = 8_GiB};

}  // namespace gpipe
