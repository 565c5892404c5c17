#include "other.hpp"

float last_bias(gpipe::trainer<net, gpipe::adam>& training) { return training.array(2, "bias").values()[0]; }
