// Answers of NVIDIA's own occupancy calculator: occupancy.json.gz is what this printed, built against the cuda_occupancy.h that
// triton 3.7.1 carries:  g++ -I…/triton/backends/nvidia/include occupancy.cpp -o occupancy && ./occupancy | gzip -9n
// A row: gpu, threads of a block, registers of a thread, bytes of shared memory, blocks on a multiprocessor, what limits (bits).
#include <climits>
#include <cstddef>
#include <cstdio>

#include "cuda_occupancy.h"

struct Card {
  const char* name;
  int major, minor, threads;
  size_t shared, shared_optin;
};

int main() {
  const Card cards[] = {{"a100", 8, 0, 2048, 167936, 166912},
                        {"l4", 8, 9, 1536, 102400, 101376},
                        {"h100", 9, 0, 2048, 233472, 232448},
                        {"b200", 10, 0, 2048, 233472, 232448}};
  const int threads[] = {32, 64, 128, 256, 384, 512, 1024};
  const int registers[] = {16, 24, 32, 33, 40, 48, 56, 64, 80, 96, 128, 168, 232, 255};
  const size_t shared[] = {0, 32, 2048, 16384, 40960, 98304, 101376, 166912, 200000, 232448};
  const char* separator = "[";
  for (const Card& card : cards) {
    cudaOccDeviceProp properties;
    properties.computeMajor = card.major;
    properties.computeMinor = card.minor;
    properties.maxThreadsPerBlock = 1024;
    properties.maxThreadsPerMultiprocessor = card.threads;
    properties.regsPerBlock = properties.regsPerMultiprocessor = 65536;
    properties.warpSize = 32;
    properties.sharedMemPerBlock = 49152;
    properties.sharedMemPerMultiprocessor = card.shared;
    properties.sharedMemPerBlockOptin = card.shared_optin;
    properties.reservedSharedMemPerBlock = 1024;
    for (int t : threads)
      for (int r : registers)
        for (size_t s : shared) {
          cudaOccFuncAttributes kernel;
          kernel.maxThreadsPerBlock = 1024;
          kernel.numRegs = r;
          kernel.sharedSizeBytes = 0;
          kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
          kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          kernel.maxDynamicSharedSizeBytes = card.shared_optin;
          kernel.numBlockBarriers = 1;
          cudaOccDeviceState state;
          state.cacheConfig = CACHE_PREFER_NONE;
          state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
          cudaOccResult result;
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &kernel, &state, t, s)) return 1;
          printf("%s[\"%s\",%d,%d,%zu,%d,%u]", separator, card.name, t, r, s, result.activeBlocksPerMultiprocessor,
                 result.limitingFactors);
          separator = ",\n";
        }
  }
  printf("]\n");
}
