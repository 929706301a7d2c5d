// Runs an artefact without Python and without PyTorch: standalone ARTEFACT [RUNS] [THREADS]
//
// The inputs are numbers that `__main__.py` makes, too, so that both can be compared: element i of input k is
// ((7 i + 13 k) mod 101) / 101 - 0.5.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "abi.h"

using Tensors = std::vector<std::vector<float>>;

static std::vector<float> numbers(std::int64_t length, std::int64_t k) {
    std::vector<float> made(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; i++) made[i] = float((7 * i + 13 * k) % 101) / 101.0f - 0.5f;
    return made;
}

static std::vector<float*> addresses(Tensors& tensors) {
    std::vector<float*> found;
    for (auto& tensor : tensors) found.push_back(tensor.data());
    return found;
}

static double seconds_of_a_run(const small_program* program, Tensors& inputs, Tensors& outputs, int threads) {
    const auto in = addresses(inputs), out = addresses(outputs);
    const auto begin = std::chrono::steady_clock::now();
    if (small_run(program, in.data(), out.data(), threads, nullptr) != 0) {
        std::fprintf(stderr, "there is not enough memory to run the program\n");
        std::exit(1);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main(int count, char** words) {
    if (count < 2) {
        std::fprintf(stderr, "usage: standalone ARTEFACT [RUNS] [THREADS]\n");
        return 2;
    }
    std::ifstream file(words[1], std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "the artefact %s cannot be read\n", words[1]);
        return 2;
    }
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const int runs = count > 2 ? std::max(1, std::atoi(words[2])) : 20, threads = count > 3 ? std::max(1, std::atoi(words[3])) : 1;

    char error[1024];
    small_program* program = small_load(bytes.data(), bytes.size(), error, sizeof error);
    if (program == nullptr) {
        std::fprintf(stderr, "%s is refused: %s\n", words[1], error);
        return 1;
    }
    Tensors inputs, outputs;
    for (std::int64_t k = 0; k < small_input_count(program); k++) inputs.push_back(numbers(small_input_length(program, k), k));
    for (std::int64_t k = 0; k < small_output_count(program); k++) outputs.emplace_back(small_output_length(program, k));

    std::vector<double> times;
    for (int run = 0; run < runs; run++) times.push_back(seconds_of_a_run(program, inputs, outputs, threads));
    std::sort(times.begin(), times.end());
    std::printf("%lld instructions, median of %d runs: %.1f µs, least %.1f µs\n", static_cast<long long>(small_instruction_count(program)), runs,
                times[times.size() / 2] * 1e6, times[0] * 1e6);
    for (std::size_t k = 0; k < outputs.size(); k++) {
        double sum = 0;
        for (float number : outputs[k]) sum += number;
        std::printf("output %zu: %zu numbers, sum %.6g\n", k, outputs[k].size(), sum);
    }
    small_free(program);
    return 0;
}
