# lit tests of dialects, passes and tools; a test has the stem of what it tests. `lit -v BUILD/test/dialects/graph` runs one room.
import os
import sys
import lit.formats
from lit.llvm import llvm_config

config.name = "zero-compile"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.zc_binary_root, "test")
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=all"

# %source is the repository, %build the build folder.
config.substitutions += [("%python", sys.executable), ("%source", config.zc_source_root), ("%build", config.zc_binary_root),
                         ("%mlir_include", config.mlir_include)]

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.use_default_substitutions()
tools = ["zero-opt", "zero-translate", "zero-compile", "zero-run"]
built = [tool for tool in tools if os.path.exists(os.path.join(config.zc_tools_dir, tool))]
config.available_features.update(built)
llvm_config.add_tool_substitutions(built + ["llvm-tblgen"], [config.zc_tools_dir, config.llvm_tools_dir])
