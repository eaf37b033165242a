// A libcuda.so.1 for machines without a driver: cuDNN looks for these functions before it chooses a kernel for a GPU
// that is only described. What it compiles is "loaded" here and never run; whoever asks for a device is told that there
// is none.
using Handle = void *;

enum : int { kSuccess = 0, kNoDevice = 100 };

static int give(Handle *handle) {
  *handle = reinterpret_cast<Handle>(1);
  return kSuccess;
}

#define ZC_EXPORT extern "C" __attribute__((visibility("default")))
#define ZC_GIVES(name)                                                                                                 \
  ZC_EXPORT int name(Handle *handle);                                                                                  \
  int name(Handle *handle) { return give(handle); }
#define ZC_SUCCEEDS(name)                                                                                              \
  ZC_EXPORT int name();                                                                                                \
  int name() { return kSuccess; }
#define ZC_REFUSES(name)                                                                                               \
  ZC_EXPORT int name();                                                                                                \
  int name() { return kNoDevice; }

ZC_EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return kSuccess;
}
ZC_EXPORT int cuKernelGetAttribute(int *value);
int cuKernelGetAttribute(int *value) {
  *value = 0;
  return kSuccess;
}

ZC_GIVES(cuKernelGetFunction)
ZC_GIVES(cuLibraryGetKernel)
ZC_GIVES(cuLibraryGetModule)
ZC_GIVES(cuLibraryLoadData)
ZC_GIVES(cuModuleGetFunction)
ZC_GIVES(cuModuleLoadData)
ZC_SUCCEEDS(cuFuncSetAttribute)
ZC_SUCCEEDS(cuKernelSetAttribute)
ZC_SUCCEEDS(cuLibraryUnload)
ZC_SUCCEEDS(cuModuleUnload)
ZC_REFUSES(cuCtxGetCurrent)
ZC_REFUSES(cuCtxGetLimit)
ZC_REFUSES(cuCtxPopCurrent)
ZC_REFUSES(cuCtxPushCurrent)
ZC_REFUSES(cuDeviceGet)
ZC_REFUSES(cuDeviceGetCount)
ZC_REFUSES(cuGetErrorName)
ZC_REFUSES(cuGetErrorString)
ZC_REFUSES(cuGetProcAddress_v2)
ZC_REFUSES(cuInit)
ZC_REFUSES(cuLaunchCooperativeKernel)
ZC_REFUSES(cuLaunchKernel)
ZC_REFUSES(cuLaunchKernelEx)
ZC_REFUSES(cuLibraryLoadFromFile)
ZC_REFUSES(cuLinkAddData)
ZC_REFUSES(cuLinkComplete)
ZC_REFUSES(cuLinkCreate)
ZC_REFUSES(cuLinkDestroy)
ZC_REFUSES(cuOccupancyMaxPotentialClusterSize)
ZC_REFUSES(cuStreamGetCtx)
ZC_REFUSES(cuTensorMapEncodeIm2col)
ZC_REFUSES(cuTensorMapEncodeTiled)
