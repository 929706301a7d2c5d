// The table of kernels: name, operands, and how many loops are inner ones (-1: any number).
#include "kernels.h"

#include <cstring>

namespace small {

static const Kernel KERNELS[] = {
    {"copy", "oi", 0, copy},
    {"add", "oiI", 0, add},
    {"mul", "oiI", 0, multiply},
    {"div", "oiI", 0, divide},
    {"relu", "oi", 0, relu},
    {"gelu", "oi", 0, gelu},
    {"gelu_tanh", "oi", 0, gelu_tanh},
    {"gelu_backward", "oii", 0, gelu_backward},
    {"gelu_tanh_backward", "oii", 0, gelu_tanh_backward},
    {"threshold_backward", "oii", 0, threshold_backward},
    {"softmax", "oi", 1, softmax},
    {"softmax_backward", "oii", 1, softmax_backward},
    {"layer_norm", "oooiII", 1, layer_norm},
    {"layer_norm_backward", "OOOiiiiI", 1, layer_norm_backward},
    {"sum", "oi", -1, sum},
    {"matmul", "oiiI", 3, matmul},
};

const Kernel* find_kernel(const char* name) {
    for (const Kernel& kernel : KERNELS)
        if (std::strcmp(kernel.name, name) == 0) return &kernel;
    return nullptr;
}

}  // namespace small
