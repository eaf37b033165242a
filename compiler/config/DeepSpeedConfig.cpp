//===- DeepSpeedConfig.cpp - a DeepSpeed configuration as options ---------------------===//

#include "compiler/config/DeepSpeedConfig.h"
#include "compiler/config/DeepSpeedKeys.h"

#include <cmath>

namespace zc {

namespace {

using Json = nlohmann::json;

/// Features that change what is trained: refused unless off.
constexpr const char *kUnsupported[] = {"/sparse_attention",
                                        "/compression_training",
                                        "/curriculum_learning",
                                        "/data_efficiency",
                                        "/progressive_layer_drop",
                                        "/pipeline",
                                        "/eigenvalue",
                                        "/amp",
                                        "/torch_autocast",
                                        "/elasticity",
                                        "/hybrid_engine",
                                        "/weight_quantization",
                                        "/quantize_training",
                                        "/tensor_parallel",
                                        "/zenflow",
                                        "/sparse_gradients"};

constexpr const char *kPrecisions[] = {"/bf16", "/bfloat16", "/fp16"};

class Translation {
public:
  Translation(DeepSpeedKeys &keys, int64_t dataRanks, const GivenOptions &given)
      : keys(keys), dataRanks(dataRanks), given(given) {}

  Status run() {
    for (Status (Translation::*part)() : {&Translation::zero, &Translation::offload, &Translation::communication,
                                          &Translation::precision, &Translation::batch})
      ZC_RETURN_IF_ERROR((this->*part)());
    ZC_RETURN_IF_ERROR(translateScheduler(keys, flag("lr"))); // its rate comes before the optimizer's
    ZC_RETURN_IF_ERROR(optimizer());
    for (const char *section : kUnsupported)
      ZC_RETURN_IF_ERROR(keys.mustBeOff(section));
    return keys.refuseTheRest();
  }

  int64_t microRows = 0; ///< as DeepSpeedConfig's

private:
  /// The value of a flag that is given as well, which wins; empty: it is not.
  std::string flag(const std::string &name) const {
    auto found = given.find(name);
    return found == given.end() || found->second.empty() ? "" : found->second.back();
  }

  Status place(const std::string &key, const std::string &flag) {
    const Json *value = keys.find(key);
    if (!value)
      return Status::success();
    for (auto [name, tier] : {std::pair("none", "none"), std::pair("cpu", "host"), std::pair("nvme", "nvme")})
      if (*value == name) {
        keys.give(flag, tier, key);
        return Status::success();
      }
    return keys.wrong(key, "none, cpu or nvme");
  }

  Status zero() {
    bool half = false;
    for (const char *key : {"/bf16/enabled", "/bfloat16/enabled", "/fp16/enabled"}) {
      bool on = false;
      ZC_RETURN_IF_ERROR(keys.isOn(key, on));
      half |= on;
    }
    if (const std::string precision = flag("precision"); !precision.empty())
      half = precision != "fp32";
    double width = half ? 2 : 4;                                                     // DeepSpeed counts elements
    if (const Json *old = keys.find("/zero_optimization"); old && old->is_boolean()) // before there were stages
      keys.give("zero-stage", *old == true ? "1" : "0", "/zero_optimization");
    else
      keys.forget("/zero_optimization");
    ZC_RETURN_IF_ERROR(keys.integer("/zero_optimization/stage", "zero-stage"));
    ZC_RETURN_IF_ERROR(keys.integer("/zero_optimization/reduce_bucket_size", "bucket-size", width));
    return keys.integer("/zero_optimization/stage3_prefetch_bucket_size", "prefetch", width);
  }

  Status offload() {
    const std::string optimizer = "/zero_optimization/offload_optimizer",
                      parameters = "/zero_optimization/offload_param";
    ZC_RETURN_IF_ERROR(place(optimizer + "/device", "offload-optimizer"));
    ZC_RETURN_IF_ERROR(keys.number(optimizer + "/ratio", "offload-ratio"));
    ZC_RETURN_IF_ERROR(place(parameters + "/device", "offload-param"));
    bool on = false;
    for (auto [old, option] : {std::pair("/zero_optimization/cpu_offload", "offload-optimizer"),
                               std::pair("/zero_optimization/cpu_offload_params", "offload-param")}) {
      ZC_RETURN_IF_ERROR(keys.isOn(old, on));
      if (on)
        keys.give(option, "host", old);
    }
    ZC_RETURN_IF_ERROR(keys.isOn("/activation_checkpointing/cpu_checkpointing", on));
    if (on)
      keys.give("offload-activation", "host", "/activation_checkpointing/cpu_checkpointing");
    for (const std::string &tier : {optimizer, parameters})
      if (const Json *folder = keys.find(tier + "/nvme_path"); folder && folder->is_string())
        keys.note("zero-run --nvme-dir " + folder->get<std::string>());
    return Status::success();
  }

  Status communication() {
    ZC_RETURN_IF_ERROR(keys.integer("/seed", "seed"));
    bool on = false;
    ZC_RETURN_IF_ERROR(keys.isOn("/zero_optimization/zero_quantized_weights", on));
    if (on)
      keys.give("quantize-weights", "int8", "/zero_optimization/zero_quantized_weights");
    ZC_RETURN_IF_ERROR(keys.isOn("/zero_optimization/zero_quantized_gradients", on));
    if (on)
      keys.give("quantize-gradients", "int4", "/zero_optimization/zero_quantized_gradients");
    const std::string key = "/zero_optimization/zero_hpz_partition_size";
    if (const Json *size = keys.find(key); size && *size != 1) {
      ZC_RETURN_IF_ERROR(keys.integer(key, "ranks-per-node"));
      keys.give("hierarchical", "true", key);
    }
    ZC_RETURN_IF_ERROR(
        keys.mustBe("/zero_optimization/zero_quantized_nontrainable_weights", false, "is not in this version"));
    return keys.mustBe("/zero_optimization/mics_shard_size", -1, "is not in this version: all ranks share each state");
  }

  Status precision() {
    std::string type = "fp32";
    const std::string wins = flag("precision");
    for (const std::string section : kPrecisions) {
      bool on = false;
      ZC_RETURN_IF_ERROR(keys.isOn(section + "/enabled", on));
      const std::string name = section == "/fp16" ? "fp16" : "bf16";
      if (keys.isAuto(section + "/enabled"))
        resolve(section + "/enabled", "off", "precision");
      if (on && type != "fp32" && type != name)
        return keys.wrong(section + "/enabled", "false where \"" + type + "\" is enabled: a run has one precision");
      if (on) {
        keys.give("precision", name, section + "/enabled");
        type = name;
      }
      ZC_RETURN_IF_ERROR(keys.mustBe(section + "/" + name + "_master_weights_and_grads", false, kNoSuchType));
      ZC_RETURN_IF_ERROR(keys.mustBe(section + "/" + name + "_optimizer_states", false, kNoSuchType));
      ZC_RETURN_IF_ERROR(lossScale(section == "/fp16" && on && (wins.empty() || wins == "fp16")));
    }
    type = wins.empty() ? type : wins;
    ZC_RETURN_IF_ERROR(gradientTypes(type));
    double clip = 0;
    ZC_RETURN_IF_ERROR(keys.read("/gradient_clipping", clip));
    if (keys.isAuto("/gradient_clipping")) {
      clip = 1;
      resolve("/gradient_clipping", "1, --clip-grad-norm", "clip-grad-norm");
    }
    if (clip != 0)
      keys.give("clip-grad-norm", Json(clip).dump(), "/gradient_clipping");
    return Status::success();
  }

  /// Gradients are sent in the type of the parameters; ranks are summed in fp32, micro-steps in a type of choice.
  Status gradientTypes(const std::string &type) {
    const char *kWhy = "is not in this version: gradients are sent as --precision says";
    const Json *sent = keys.find("/communication_data_type");
    bool isOwn = !sent || *sent == type || *sent == "fp32" || (*sent == "bfp16" && type == "bf16");
    if (!isOwn)
      ZC_RETURN_IF_ERROR(keys.mustBe("/communication_data_type", type, kWhy));
    const Json *sums = keys.find("/data_types/grad_accum_dtype");
    if (sums && *sums == "fp32" && type != "fp32") {
      keys.give("grad-accum-dtype", "fp32", "/data_types/grad_accum_dtype");
      return Status::success();
    }
    return keys.mustBe("/data_types/grad_accum_dtype", type,
                       "is not in this version: gradients are added up in the parameters' type, or in fp32");
  }

  /// "loss_scale" 0 is a dynamic one, as when it is absent. Where fp16 is off nothing is said.
  Status lossScale(bool isOn) {
    int64_t window = 0, hysteresis = 0;
    double fixed = 0, power = 0, least = 0;
    bool consecutive = false;
    ZC_RETURN_IF_ERROR(keys.read("/fp16/loss_scale", fixed));
    ZC_RETURN_IF_ERROR(keys.read("/fp16/initial_scale_power", power));
    ZC_RETURN_IF_ERROR(keys.read("/fp16/loss_scale_window", window));
    ZC_RETURN_IF_ERROR(keys.read("/fp16/hysteresis", hysteresis));
    ZC_RETURN_IF_ERROR(keys.read("/fp16/consecutive_hysteresis", consecutive));
    ZC_RETURN_IF_ERROR(keys.read("/fp16/min_loss_scale", least));
    if (!isOn)
      return Status::success();
    if (fixed != 0)
      return keys.number("/fp16/loss_scale", "loss-scale");
    if (keys.find("/fp16/initial_scale_power")) {
      if (std::abs(power) > 126)
        return keys.wrong("/fp16/initial_scale_power", "a power of two between -126 and 126");
      keys.give("initial-loss-scale", Json(std::exp2(power)).dump(), "/fp16/initial_scale_power");
    }
    ZC_RETURN_IF_ERROR(keys.integer("/fp16/loss_scale_window", "loss-scale-window"));
    ZC_RETURN_IF_ERROR(keys.integer("/fp16/hysteresis", "loss-scale-hysteresis"));
    if (consecutive)
      keys.give("consecutive-hysteresis", "true", "/fp16/consecutive_hysteresis");
    return keys.number("/fp16/min_loss_scale", "min-loss-scale");
  }

  /// train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks, of which
  /// one may be left out (DeepSpeedConfig._set_batch_related_parameters). The graph has the rows of a micro-step
  /// itself.
  Status batch() {
    const std::string all = "/train_batch_size", rows = "/train_micro_batch_size_per_gpu",
                      steps = "/gradient_accumulation_steps";
    int64_t train = 0, micro = 0, accumulation = 0;
    ZC_RETURN_IF_ERROR(keys.read(all, train, 1));
    ZC_RETURN_IF_ERROR(keys.read(rows, micro, 1));
    ZC_RETURN_IF_ERROR(keys.read(steps, accumulation, 1));
    if (keys.isAuto(steps) && !(train && micro)) {
      accumulation = 1;
      resolve(steps, "1, --grad-accumulation", "grad-accumulation");
    }
    keys.isAuto(all);
    keys.isAuto(rows);
    if (!accumulation && (train || micro))
      accumulation = train && micro ? std::max<int64_t>(1, train / micro / dataRanks) : 1;
    if (train && !micro)
      micro = std::max<int64_t>(1, train / accumulation / dataRanks);
    // Who gives the flag wants another batch.
    bool isOwn = given.count("grad-accumulation") > 0;
    if (train && !isOwn && double(micro) * double(accumulation) * double(dataRanks) != double(train))
      return keys.wrong(all, "train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks: " +
                                 std::to_string(train) + ", but " + std::to_string(micro) + " x " +
                                 std::to_string(accumulation) + " x " + std::to_string(dataRanks) +
                                 " (--world-size, over --tensor-parallel)");
    if (micro && (!isOwn || keys.find(rows))) {
      microRows = micro;
      keys.note(std::to_string(micro) + " samples of a micro-step, which the batch is where the graph has it open");
    }
    if (accumulation)
      keys.give("grad-accumulation", std::to_string(accumulation), keys.find(steps) || !train ? steps : all);
    return Status::success();
  }

  Status optimizer() {
    const std::string params = "/optimizer/params/";
    const Json *type = keys.find("/optimizer/type");
    if (type)
      ZC_RETURN_IF_ERROR(rule(*type));
    for (auto [key, option] : {std::pair("lr", "lr"), std::pair("eps", "eps"),
                               std::pair("weight_decay", "weight-decay"), std::pair("momentum", "momentum")})
      ZC_RETURN_IF_ERROR(keys.number(params + key, option));
    if (const Json *betas = keys.find(params + "betas")) {
      if (!betas->is_array() || betas->size() != 2 || !(*betas)[0].is_number() || !(*betas)[1].is_number())
        return keys.wrong(params + "betas", "a list of two numbers");
      keys.give("betas", (*betas)[0].dump() + "," + (*betas)[1].dump(), params + "betas");
    }
    struct Default {
      const char *key, *option, *value;
    };
    // TrainingArguments' own, which is what "auto" becomes where nobody says otherwise.
    for (auto [key, option, value] : {Default{"lr", "lr", kAutoRate}, Default{"betas", "betas", "0.9,0.999"},
                                      Default{"eps", "eps", "1e-08"}, Default{"weight_decay", "weight-decay", "0"}})
      if (keys.isAuto(params + key)) {
        keys.give(option, value, params + key);
        resolve(params + key, std::string(value) + ", --" + option, option);
      }
    constexpr const char *kNot = "is not in this version";
    for (const char *key : {"nesterov", "amsgrad", "maximize"})
      ZC_RETURN_IF_ERROR(keys.mustBe(params + key, false, kNot));
    for (const char *key : {"bias_correction", "fp32_optimizer_states"})
      ZC_RETURN_IF_ERROR(keys.mustBe(params + key, true, kNot));
    return keys.mustBe(params + "dampening", 0, kNot);
  }

  /// DeepSpeed's Adam decays as AdamW does unless told otherwise, and by 0 unless told otherwise or torch's own.
  Status rule(const Json &type) {
    const std::string params = "/optimizer/params/";
    std::string name = type.is_string() ? type.get<std::string>() : "", lower = name;
    for (char &c : lower)
      c = char(std::tolower(static_cast<unsigned char>(c)));
    double momentum = 0;
    bool decoupled = true, isTorchs = false;
    ZC_RETURN_IF_ERROR(keys.read(params + "momentum", momentum));
    ZC_RETURN_IF_ERROR(keys.read(params + "adam_w_mode", decoupled));
    ZC_RETURN_IF_ERROR(keys.read(params + "torch_adam", isTorchs));
    decoupled |= lower == "adamw";
    if (lower == "adam" || lower == "adamw")
      keys.give("optimizer", decoupled ? "adamw" : "adam", "/optimizer/type");
    else if (name == "SGD")
      keys.give("optimizer", momentum != 0 ? "momentum" : "sgd", "/optimizer/type");
    else
      return keys.unsupported("optimizer " + escapeName(type.dump()) + " is not in this version",
                              "--optimizer adamw, adam, sgd or momentum");
    if (!keys.find(params + "weight_decay") && !keys.isAuto(params + "weight_decay"))
      keys.give("weight-decay", isTorchs && lower != "sgd" && decoupled ? "0.01" : "0", "/optimizer/type");
    return Status::success();
  }

  /// Says what an "auto" became, unless `option` says what it is.
  void resolve(const std::string &key, const std::string &value, const std::string &option) {
    if (flag(option).empty())
      keys.note("\"" + key.substr(1) + "\" is \"auto\": " + value);
  }

  static constexpr const char *kNoSuchType = "is not in this version: master weights and their state are fp32";

  DeepSpeedKeys &keys;
  int64_t dataRanks;
  const GivenOptions &given;
};

} // namespace

Result<DeepSpeedConfig> readDeepSpeedConfig(const std::string &path, int64_t dataRanks, const GivenOptions &given) {
  Result<Json> config = readJsonFile(path, "--config takes a DeepSpeed configuration");
  if (!config)
    return config.error();
  if (!config->is_object())
    return wrongConfig("this is no JSON object", path, "--config takes a DeepSpeed configuration");
  DeepSpeedKeys keys(path, *config);
  Translation translation(keys, dataRanks, given);
  ZC_RETURN_IF_ERROR(translation.run());
  return DeepSpeedConfig{std::move(keys.options), translation.microRows, std::move(keys.notes)};
}

Result<AppliedConfig> applyDeepSpeedConfig(const std::string &path, const OptionList &list, int64_t dataRanks,
                                           GivenOptions &given) {
  Result<DeepSpeedConfig> config = readDeepSpeedConfig(path, dataRanks, given);
  if (!config)
    return config.error();
  AppliedConfig applied;
  applied.path = path;
  applied.microRows = config->microRows;
  std::string taken;
  for (const auto &[name, value, key] : config->options) {
    const Option *option = list.find(name);
    if (!option)
      return makeError(Code::internal, 128, "there is no option \"" + name + "\"", path,
                       "this is a defect of zero-compile; please report it");
    if (!given.try_emplace(name, std::vector<std::string>{value}).second)
      continue;
    applied.keys.emplace(name, key);
    if (Status status = option->read(value); !status.ok())
      return applied.located(status.error());
    taken += flagText(*option, value);
  }
  applied.notes.push_back(escapeName(path) + " means" + (taken.empty() ? " nothing beyond the flags given" : taken));
  for (const std::string &note : config->notes)
    applied.notes.push_back(escapeName(path) + ": " + note);
  return applied;
}

Error AppliedConfig::located(Error error) const {
  const std::string dashes = "--";
  if (error.where.compare(0, dashes.size(), dashes) != 0)
    return error;
  if (auto key = keys.find(error.where.substr(dashes.size())); key != keys.end())
    error.where = path + ": \"" + key->second + "\", which is " + error.where;
  return error;
}

} // namespace zc
