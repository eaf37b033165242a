// A library needs a source; what this one is for is its precompiled header (Mlir.cmake, zc_precompiled).
