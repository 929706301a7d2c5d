// The kernels. Each is a function of a Call; `kernels.cpp` has the table of their names.
#pragma once
#include "program.h"

namespace small {

void copy(const Call&);
void add(const Call&);
void multiply(const Call&);
void divide(const Call&);
void relu(const Call&);
void gelu(const Call&);
void gelu_tanh(const Call&);
void gelu_backward(const Call&);
void gelu_tanh_backward(const Call&);
void threshold_backward(const Call&);

void softmax(const Call&);
void softmax_backward(const Call&);
void layer_norm(const Call&);
void layer_norm_backward(const Call&);
void sum(const Call&);

void matmul(const Call&);

}  // namespace small
