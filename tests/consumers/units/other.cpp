#include "other.hpp"

float last_bias(gpipe::trainer<net, gpipe::adam>& training) { return training.parameter(2, "bias")[0]; }
