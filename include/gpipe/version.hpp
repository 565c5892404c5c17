#pragma once

// The one place of the version (semantic, https://semver.org): who builds by path has nothing but the headers, so
// CMakeLists.txt and the recipe read these three lines, and CHANGELOG.md lists what came with each.
#define GPIPE_VERSION_MAJOR 0
#define GPIPE_VERSION_MINOR 1
#define GPIPE_VERSION_PATCH 0

/// 10203 for 1.2.3, to be compared by the preprocessor.
#define GPIPE_VERSION (GPIPE_VERSION_MAJOR * 10000 + GPIPE_VERSION_MINOR * 100 + GPIPE_VERSION_PATCH)

namespace gpipe {

/// Before 1.0.0 a new minor version may break what was promised; a new patch never does.
struct version_number {
  int major, minor, patch;
};
inline constexpr version_number version{GPIPE_VERSION_MAJOR, GPIPE_VERSION_MINOR, GPIPE_VERSION_PATCH};

}  // namespace gpipe
