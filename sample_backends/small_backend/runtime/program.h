// A program as it stands in an artefact and in memory: the same records, in the machine's own byte order. `artefact.py` writes them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace small {

constexpr int MAX_RANK = 6;
constexpr int MAX_OPERANDS = 8;
constexpr std::uint32_t FORMAT_VERSION = 1;

enum class Kind : std::int64_t { input, output, arena, constant };

// Where the floats of a value lie: `start` is the number of the input or output, or the first float in the arena or the constants.
struct Buffer {
    Kind kind;
    std::int64_t start;
    std::int64_t length;
};

// How one operand of an instruction is walked. Its buffer is -1 where an optional operand is absent.
struct Operand {
    std::int64_t buffer;
    std::int64_t offset;
    std::int64_t strides[MAX_RANK];
};

// A nest of `rank` loops over all operands at once. A stride of 0 repeats an operand in that loop; of an output it means that the loop
// sums up into it. The last `inner` loops are those that a kernel works on as a whole: a row of softmax, the M, N and K of a product.
struct Instruction {
    char kernel[32];
    std::int32_t rank;
    std::int32_t inner;
    std::int32_t operand_count;
    std::int32_t reserved;
    std::int64_t sizes[MAX_RANK];
    double scalars[2];
    Operand operands[MAX_OPERANDS];
};

// What a kernel is given: the loops, and where each operand begins (null where it is absent).
struct Call {
    const Instruction& instruction;
    float* operands[MAX_OPERANDS];
    int threads;

    std::int64_t size(int loop) const { return instruction.sizes[loop]; }
    std::int64_t stride(int operand, int loop) const { return instruction.operands[operand].strides[loop]; }
    int outer() const { return instruction.rank - instruction.inner; }

    // How many times the outer loops go round, and where an operand stands in round `index`.
    std::int64_t rounds() const {
        std::int64_t product = 1;
        for (int loop = 0; loop < outer(); loop++) product *= size(loop);
        return product;
    }
    float* at(int operand, std::int64_t index) const {
        float* place = operands[operand];
        if (place == nullptr) return nullptr;
        for (int loop = outer() - 1; loop >= 0; loop--) {
            place += index % size(loop) * stride(operand, loop);
            index /= size(loop);
        }
        return place;
    }
};

// A kernel by its name. `operands` has a letter for each: o for an output, i for an input, a capital for one that may be absent.
struct Kernel {
    const char* name;
    const char* operands;
    int inner;
    void (*run)(const Call&);
};
const Kernel* find_kernel(const char* name);

}  // namespace small

struct small_program {
    std::vector<std::int64_t> inputs, outputs;  // their lengths in floats
    std::vector<small::Buffer> buffers;
    std::vector<small::Instruction> instructions;
    std::vector<const small::Kernel*> kernels;  // one for each instruction
    std::vector<float> constants;
    std::int64_t arena = 0;  // floats
};
