// The executor: one instruction after the other, each with pointers to its operands.
#include <chrono>
#include <new>

#include "abi.h"
#include "kernels.h"
#include "program.h"

namespace small {
namespace {

// What lies in the arena is dead when a program ends, so each thread keeps one for all programs. It begins at a cache line.
float* arena_of_this_thread(std::int64_t floats) {
    thread_local std::vector<float> memory;
    constexpr std::size_t line = 64;
    const std::size_t needed = std::size_t(floats) + line / sizeof(float);
    if (memory.size() < needed) {
        memory.clear();
        memory.resize(needed);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return reinterpret_cast<float*>((address + line - 1) / line * line);
}

float* place(const small_program& program, const Operand& operand, const float* const* inputs, float* const* outputs, float* arena) {
    if (operand.buffer == -1) return nullptr;
    const Buffer& buffer = program.buffers[operand.buffer];
    switch (buffer.kind) {
        case Kind::input: return const_cast<float*>(inputs[buffer.start]) + operand.offset;  // only read: the loader has checked it
        case Kind::output: return outputs[buffer.start] + operand.offset;
        case Kind::constant: return const_cast<float*>(program.constants.data()) + buffer.start + operand.offset;
        default: return arena + buffer.start + operand.offset;
    }
}

double now() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace
}  // namespace small

extern "C" int small_run(const small_program* program, const float* const* inputs, float* const* outputs, int threads, double* seconds) {
    using namespace small;
    try {
        float* arena = arena_of_this_thread(program->arena);
        for (std::size_t k = 0; k < program->instructions.size(); k++) {
            const Instruction& instruction = program->instructions[k];
            const double begin = seconds ? now() : 0;
            Call call{instruction, {}, threads};
            for (int n = 0; n < instruction.operand_count; n++) call.operands[n] = place(*program, instruction.operands[n], inputs, outputs, arena);
            program->kernels[k]->run(call);
            if (seconds) seconds[k] = now() - begin;
        }
        return 0;
    } catch (const std::bad_alloc&) {
        return 1;
    }
}
