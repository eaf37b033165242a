// Any bytes as a configuration, the first one saying which: D DeepSpeed's, applied to options of as many ranks as the
// second one says; G groups of parameters; R a machine's rates. Whatever comes out is an error value of a user's
// mistake, or options that are complete and say their command.
#include "compiler/config/DeepSpeedConfig.h"
#include "compiler/config/ParamGroups.h"
#include "compiler/pipeline/CompileOptions.h"
#include "compiler/schedule/MachineModel.h"
#include "test/fuzz/Folder.h"

using namespace zc;

namespace {

void expectMistake(const Error &error) {
  switch (error.code) {
  case Code::usage:
  case Code::badInput:
  case Code::unsupported:
    (void)render(error);
    break;
  default:
    std::abort();
  }
}
template <typename T> bool isRead(const Result<T> &result) {
  if (!result)
    expectMistake(result.error());
  return result.ok();
}

void applyDeepSpeed(const std::string &path, int64_t ranks) {
  CompileOptions options;
  options.model = "model.onnx";
  options.strategy.shard.worldSize = ranks;
  const OptionList list = listOptions(options);
  const Result<AppliedConfig> applied = applyDeepSpeedConfig(path, list, ranks, options.given);
  if (!isRead(applied))
    return;
  options.config = *applied;
  if (Status status = complete(options); !status.ok())
    return expectMistake(status.error());
  if (commandLine(options).empty())
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  if (count < 2)
    return 0;
  const std::string path = fuzz::written("config", {reinterpret_cast<const char *>(bytes) + 2, count - 2});
  switch (bytes[0]) {
  case 'D':
    applyDeepSpeed(path, 1 + bytes[1] % 16);
    break;
  case 'G':
    isRead(readParamGroups(path));
    break;
  case 'R':
    if (Result<MachineChoice> machine = parseMachine(path); isRead(machine))
      isRead(ratesOf(*machine));
    break;
  default:
    break;
  }
  return 0;
}
