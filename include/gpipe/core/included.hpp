#pragma once

namespace gpipe::detail {

/// Whether a program includes the header that completes a type. A part of the library that is not included costs
/// nothing, and a call that needs it is an error that names its header.
template <class Part>
concept included = requires {
  sizeof(Part);
};

}  // namespace gpipe::detail
