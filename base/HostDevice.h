//===- HostDevice.h - functions that a GPU's code calls too --------------------===//
#pragma once

#ifdef __CUDACC__
#define ZC_HD __host__ __device__ __forceinline__
#else
#define ZC_HD inline
#endif
