// From the bytes of an artefact to a program. Whatever the bytes are, the program never leaves the memory that it is given: each
// record is checked here, once, so that the kernels need not check anything.
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "abi.h"
#include "program.h"

namespace small {
namespace {

struct Header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t sections;
    std::uint64_t size;
    std::uint32_t checksum;
    std::uint32_t reserved;
    char machine[16];
    char kernels[16];
};

struct Section {
    char name[8];
    std::uint64_t offset;
    std::uint64_t size;
};

using Refusal = std::runtime_error;
constexpr std::int64_t LIMIT = std::int64_t(1) << 40;  // of a size, a stride or a length, so that no sum of products overflows

const char* machine() {
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

// CRC-32 as zlib's, with the four bytes of the checksum itself taken as zeros.
std::uint32_t checksum(const unsigned char* bytes, std::size_t size) {
    std::uint32_t table[256];
    for (std::uint32_t byte = 0; byte < 256; byte++) {
        table[byte] = byte;
        for (int bit = 0; bit < 8; bit++) table[byte] = (table[byte] >> 1) ^ (table[byte] & 1 ? 0xedb88320u : 0);
    }
    const std::size_t own = offsetof(Header, checksum);
    std::uint32_t sum = ~0u;
    for (std::size_t k = 0; k < size; k++) {
        const unsigned char byte = k >= own && k < own + 4 ? 0 : bytes[k];
        sum = table[(sum ^ byte) & 255] ^ (sum >> 8);
    }
    return ~sum;
}

std::string text(const char* field, std::size_t room) { return std::string(field, strnlen(field, room)); }

Header checked_header(const unsigned char* bytes, std::size_t size) {
    Header header;
    if (size < sizeof header) throw Refusal("the artefact is truncated: it ends within its header");
    std::memcpy(&header, bytes, sizeof header);
    if (std::memcmp(header.magic, "SMALLBE", 8) != 0) throw Refusal("this is no artefact of small_backend: it does not begin as one");
    if (header.version != FORMAT_VERSION)
        throw Refusal("the artefact has format version " + std::to_string(header.version) + ", and this runtime reads version " +
                      std::to_string(FORMAT_VERSION));
    if (header.size > size)
        throw Refusal("the artefact is truncated: it has " + std::to_string(size) + " of " + std::to_string(header.size) + " bytes");
    if (header.size < size) throw Refusal("the artefact was altered: something follows its end");
    if (header.checksum != checksum(bytes, size)) throw Refusal("the artefact was altered: its checksum is not that of its content");
    if (text(header.machine, 16) != machine())
        throw Refusal("the artefact was made for another machine: " + text(header.machine, 16) + ", and this is " + machine());
    if (text(header.kernels, 16) != small_kernels())
        throw Refusal("the artefact was made for other kernels: " + text(header.kernels, 16) + ", and this library has " + small_kernels());
    return header;
}

// The records of one section.
template <class Record>
std::vector<Record> section(const unsigned char* bytes, const Header& header, const char* name) {
    if (header.sections > (header.size - sizeof header) / sizeof(Section)) throw Refusal("the artefact lists more sections than it has room for");
    for (std::uint32_t k = 0; k < header.sections; k++) {
        Section found;
        std::memcpy(&found, bytes + sizeof header + k * sizeof found, sizeof found);
        if (text(found.name, 8) != name) continue;
        if (found.offset > header.size || found.size > header.size - found.offset || found.size % sizeof(Record) != 0)
            throw Refusal("section " + std::string(name) + " of the artefact does not lie within it");
        std::vector<Record> records(found.size / sizeof(Record));
        if (found.size != 0) std::memcpy(records.data(), bytes + found.offset, found.size);
        return records;
    }
    throw Refusal("the artefact has no section " + std::string(name));
}

void check(bool holds, const std::string& what) {
    if (!holds) throw Refusal("the artefact is not well-formed: " + what);
}

bool within(std::int64_t value, std::int64_t low, std::int64_t high) { return low <= value && value <= high; }

void check_buffer(const small_program& program, const Buffer& buffer) {
    check(within(buffer.length, 0, LIMIT) && within(buffer.start, 0, LIMIT), "a buffer has an impossible size");
    const auto holds = [&](const std::vector<std::int64_t>& lengths) {
        return buffer.start < std::int64_t(lengths.size()) && buffer.length <= lengths[buffer.start];
    };
    if (buffer.kind == Kind::input) check(holds(program.inputs), "a buffer is larger than its input");
    else if (buffer.kind == Kind::output) check(holds(program.outputs), "a buffer is larger than its output");
    else if (buffer.kind == Kind::constant) check(buffer.start + buffer.length <= std::int64_t(program.constants.size()), "a constant is missing");
    else check(buffer.kind == Kind::arena, "a buffer is of an unknown kind");
}

void check_operand(const small_program& program, const Instruction& instruction, const Operand& operand, char letter) {
    if (operand.buffer == -1) return check(letter == 'O' || letter == 'I', "an operand is missing");
    check(within(operand.buffer, 0, std::int64_t(program.buffers.size()) - 1), "an operand is in no buffer");
    const Buffer& buffer = program.buffers[operand.buffer];
    const bool is_written = letter == 'o' || letter == 'O';
    check(!is_written || buffer.kind == Kind::output || buffer.kind == Kind::arena, "an instruction writes what must not be written");
    check(within(operand.offset, 0, LIMIT), "an operand begins outside its buffer");
    std::int64_t last = operand.offset;
    for (int loop = 0; loop < instruction.rank; loop++) {
        check(within(operand.strides[loop], 0, LIMIT), "a stride is impossible");
        check(operand.strides[loop] == 0 || instruction.sizes[loop] - 1 <= (LIMIT - last) / operand.strides[loop], "an operand is too large");
        last += (instruction.sizes[loop] - 1) * operand.strides[loop];
    }
    check(last < buffer.length, "an operand reaches beyond its buffer");
}

const Kernel* checked_kernel(const small_program& program, const Instruction& instruction) {
    const std::string name = text(instruction.kernel, sizeof instruction.kernel);
    const Kernel* kernel = find_kernel(name.c_str());
    if (kernel == nullptr) throw Refusal("the artefact needs a kernel that this library does not have: " + name);
    check(within(instruction.rank, 0, MAX_RANK), "an instruction has too many loops");
    check(within(instruction.inner, kernel->inner < 0 ? 0 : kernel->inner, kernel->inner < 0 ? instruction.rank : kernel->inner) &&
              instruction.inner <= instruction.rank, "an instruction has the wrong loops for its kernel");
    for (int loop = 0; loop < instruction.rank; loop++) check(within(instruction.sizes[loop], 1, LIMIT), "a loop has an impossible size");
    check(instruction.operand_count == std::int32_t(std::strlen(kernel->operands)), "an instruction has the wrong number of operands");
    for (int k = 0; k < instruction.operand_count; k++) check_operand(program, instruction, instruction.operands[k], kernel->operands[k]);
    return kernel;
}

small_program* load(const unsigned char* bytes, std::size_t size) {
    const Header header = checked_header(bytes, size);
    small_program program;
    program.inputs = section<std::int64_t>(bytes, header, "inputs");
    program.outputs = section<std::int64_t>(bytes, header, "outputs");
    program.constants = section<float>(bytes, header, "consts");
    program.buffers = section<Buffer>(bytes, header, "buffers");
    program.instructions = section<Instruction>(bytes, header, "code");
    for (const Buffer& buffer : program.buffers) {
        check_buffer(program, buffer);
        if (buffer.kind == Kind::arena && buffer.start + buffer.length > program.arena) program.arena = buffer.start + buffer.length;
    }
    for (const Instruction& instruction : program.instructions) program.kernels.push_back(checked_kernel(program, instruction));
    return new small_program(std::move(program));
}

}  // namespace
}  // namespace small

extern "C" {

std::uint32_t small_abi_version() { return SMALL_ABI_VERSION; }
const char* small_kernels() { return SMALL_KERNELS; }  // given when this is compiled

small_program* small_load(const void* bytes, std::size_t size, char* error, std::size_t error_size) {
    try {
        return small::load(static_cast<const unsigned char*>(bytes), size);
    } catch (const std::exception& refused) {
        std::snprintf(error, error_size, "%s", refused.what());
        return nullptr;
    }
}

void small_free(small_program* program) { delete program; }
std::int64_t small_input_count(const small_program* program) { return std::int64_t(program->inputs.size()); }
std::int64_t small_output_count(const small_program* program) { return std::int64_t(program->outputs.size()); }
std::int64_t small_instruction_count(const small_program* program) { return std::int64_t(program->instructions.size()); }
std::int64_t small_input_length(const small_program* program, std::int64_t k) { return program->inputs[k]; }
std::int64_t small_output_length(const small_program* program, std::int64_t k) { return program->outputs[k]; }
}
