# cmake -DOUT=FILE -DROOT=FOLDER -P EmbedHeaders.cmake: fusedHeaders() of FusedSource.h.
set(headers kernels/cuda/Block.h kernels/cuda/ChannelSums.h kernels/cuda/Divider.h kernels/cuda/FusedKernel.h kernels/formula/Activation.h kernels/formula/Cast.h
  kernels/formula/Elementwise.h kernels/formula/Stored.h base/Float16.h base/HostDevice.h)
set(standard cmath cstdint cstring limits type_traits utility)
set(text "#include \"kernels/cuda/FusedSource.h\"\n\nnamespace zc::cuda {\n\nconst std::vector<FusedHeader> &fusedHeaders() {\n  static const std::vector<FusedHeader> all = {\n")
foreach(header ${headers} kernels/cuda/RuntimeStd.h)
  file(READ ${ROOT}/${header} content)
  string(APPEND text "      {\"${header}\", R\"zc(${content})zc\"},\n")
endforeach()
foreach(header ${standard})
  string(APPEND text "      {\"${header}\", \"#include \\\"kernels/cuda/RuntimeStd.h\\\"\\n\"},\n")
endforeach()
string(APPEND text "  };\n  return all;\n}\n\n} // namespace zc::cuda\n")
file(WRITE ${OUT} "${text}")
