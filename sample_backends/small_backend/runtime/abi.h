// The C ABI of the runtime: all that a caller needs, be it Python through ctypes or a C++ program. It knows files and memory, and
// neither Python nor PyTorch.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// Raised whenever a function below changes; a caller refuses a library of another version.
#define SMALL_ABI_VERSION 1

struct small_program;

// The version that this library was built with.
std::uint32_t small_abi_version();

// Sixteen hexadecimal digits that name the sources of this library's kernels. An artefact names those that it was made for.
const char* small_kernels();

// Checks the artefact in `bytes` and makes a program of it, which keeps no pointer into `bytes`. Returns null and writes one sentence
// to `error` if the artefact is refused.
small_program* small_load(const void* bytes, std::size_t size, char* error, std::size_t error_size);
void small_free(small_program* program);

std::int64_t small_input_count(const small_program* program);
std::int64_t small_output_count(const small_program* program);
std::int64_t small_instruction_count(const small_program* program);

// The number of floats that the k-th input or output spans in memory.
std::int64_t small_input_length(const small_program* program, std::int64_t k);
std::int64_t small_output_length(const small_program* program, std::int64_t k);

// Runs the program. `inputs` and `outputs` are arrays of pointers to as many floats as the lengths say. `seconds` is null, or has room
// for one number per instruction. A program may be run by several threads at once. Returns 0, or 1 when memory is out.
int small_run(const small_program* program, const float* const* inputs, float* const* outputs, int threads, double* seconds);
}
