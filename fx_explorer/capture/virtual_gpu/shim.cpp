// What a build of torch without a GPU lacks in C++ to accept tensors on the device "cuda": fake ones, which hold no data.
// Loaded before torch is imported, because torch asks for the hooks once, while it is imported.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

// One device with one stream. Without it: "PyTorch is not linked with support for cuda devices".
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::kCUDA> {
  static c10::Device device() { return {c10::kCUDA, 0}; }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, device()); }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
};

}  // namespace

// Called when torch is imported: a build with CUDA has put its own guard there meanwhile.
extern "C" void fx_explorer_use_guard() {
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(new Guard());
}

// Whether the GPU is one of those that cuDNN is for.
static bool has_cudnn = false;
extern "C" void fx_explorer_use_cudnn() { has_cudnn = true; }

namespace at {

// Without them: "Cannot access accelerator device when none is available".
struct VirtualHooks : CUDAHooksInterface {
  VirtualHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  // For a DataLoader that pins what it loads.
  Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  // Layouts of convolutions and the kernels of an LSTM follow from these.
  bool compiledWithCuDNN() const override { return has_cudnn; }
  long versionCuDNN() const override { return 91900; }
  long versionRuntimeCuDNN() const override { return 91900; }
  bool supportsDilatedConvolutionWithCuDNN() const override { return has_cudnn; }
  bool supportsDepthwiseConvolutionWithCuDNN() const override { return has_cudnn; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return has_cudnn; }
  bool supportsBFloat16RNNWithCuDNN() const override { return has_cudnn; }
  double batchnormMinEpsilonCuDNN() const override { return 0.0; }
};

// Preferred, so that those of a build with CUDA stay out.
C10_REGISTER_CLASS_WITH_PRIORITY(CUDAHooksRegistry, CUDAHooks, c10::REGISTRY_PREFERRED, VirtualHooks)

}  // namespace at
