# Debian's MLIR 19 and what it uses of LLVM, linked statically (one copy per tool). HandleLLVMOptions is included by each MLIR folder, not here:
# its flags (-fno-exceptions, warnings) are directory-scoped and must not reach runtime/ and kernels/.
find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(ZC_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})

# Debian's packages would have us load the whole of LLVM, a library of 130 MB with ICU and Z3 behind it, for a few hundred KB of it.
set(LLVM_LINK_LLVM_DYLIB OFF)
foreach(library ${MLIR_EXPORTED_TARGETS})
  get_target_property(needs ${library} INTERFACE_LINK_LIBRARIES)
  if(needs)
    list(TRANSFORM needs REPLACE "^LLVM$" "LLVMCore")
    set_property(TARGET ${library} PROPERTY INTERFACE_LINK_LIBRARIES "${needs}")
  endif()
endforeach()

# AddMLIR's libraries are parts of our programs: nobody links them from an installation.
set(LLVM_INSTALL_TOOLCHAIN_ONLY ON)

# For the top of each folder whose code uses MLIR.
macro(zc_mlir_folder)
  include(HandleLLVMOptions)
  add_definitions(${ZC_LLVM_DEFINITIONS})
  add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options(-Wno-deprecated-declarations) # forgets that libstdc++'s are a system's where they come out of a precompiled header
  endif()
  if(ZC_SANITIZE)
    # MLIR's headers under sanitizers: optimising them would double the build, and confuses g++ 12 into false warnings.
    add_compile_options(-O0)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-Wno-maybe-uninitialized)
    endif()
    if(ZC_SANITIZE MATCHES undefined)
      add_compile_options(-fno-sanitize=alignment,vptr) # nothing casts bytes there
    endif()
  endif()
endmacro()

# TARGET runs once over a model, or is accessors, builders and printers: nobody would notice what a quarter of the time that it takes to compile
# could gain. (Under sanitizers the whole side is at -O0, and its precompiled headers only serve files of the same level.)
function(zc_lightly_optimized target)
  if(NOT ZC_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# Headers of MLIR and of the dialects are most of what a file here costs to compile: they are compiled once per level. LEVEL is
# graph (MLIR and the graph dialect) or zero (and zero and plan).
function(zc_precompiled target level)
  zc_reuse_headers(${target} zc_pch_${level})
  # What instantiations of MLIR's templates cost is half of what is left.
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL EXECUTABLE)
    zc_batches(6 ${target})
  endif()
endfunction()
