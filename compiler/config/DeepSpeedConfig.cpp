//===- DeepSpeedConfig.cpp - a DeepSpeed configuration as options ---------------------===//

#include "compiler/config/DeepSpeedConfig.h"
#include "runtime/base/File.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace zc {

namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostBytes = 1 << 20;

/// Keys that tune DeepSpeed's run time, print, or have only one meaning here: all that is below them is passed over.
constexpr const char *kWithoutMeaning[] = {"/zero_optimization/overlap_comm",
                                           "/zero_optimization/contiguous_gradients",
                                           "/zero_optimization/reduce_scatter",
                                           "/zero_optimization/allgather_partitions",
                                           "/zero_optimization/allgather_bucket_size",
                                           "/zero_optimization/sub_group_size",
                                           "/zero_optimization/round_robin_gradients",
                                           "/zero_optimization/stage3_max_live_parameters",
                                           "/zero_optimization/stage3_max_reuse_distance",
                                           "/zero_optimization/stage3_param_persistence_threshold",
                                           "/zero_optimization/stage3_model_persistence_threshold",
                                           "/zero_optimization/stage3_gather_16bit_weights_on_model_save",
                                           "/zero_optimization/ignore_unused_parameters",
                                           "/zero_optimization/load_from_fp32_weights",
                                           "/zero_optimization/elastic_checkpoint",
                                           "/zero_optimization/memory_efficient_linear",
                                           "/zero_optimization/offload_optimizer/pin_memory",
                                           "/zero_optimization/offload_optimizer/buffer_count",
                                           "/zero_optimization/offload_optimizer/fast_init",
                                           "/zero_optimization/offload_optimizer/pipeline",
                                           "/zero_optimization/offload_optimizer/pipeline_read",
                                           "/zero_optimization/offload_optimizer/pipeline_write",
                                           "/zero_optimization/offload_param/pin_memory",
                                           "/zero_optimization/offload_param/buffer_count",
                                           "/zero_optimization/offload_param/buffer_size",
                                           "/zero_optimization/offload_param/max_in_cpu",
                                           "/fp16",
                                           "/bf16",
                                           "/bfloat16",
                                           "/aio",
                                           "/optimizer/params/adam_w_mode",
                                           "/optimizer/params/torch_adam",
                                           "/optimizer/params/bias_correction",
                                           "/optimizer/legacy_fusion",
                                           "/zero_allow_untested_optimizer",
                                           "/zero_force_ds_cpu_optimizer",
                                           "/activation_checkpointing",
                                           "/steps_per_print",
                                           "/wall_clock_breakdown",
                                           "/memory_breakdown",
                                           "/dump_state",
                                           "/flops_profiler",
                                           "/tensorboard",
                                           "/wandb",
                                           "/csv_monitor",
                                           "/comms_logger",
                                           "/prescale_gradients",
                                           "/communication_data_type",
                                           "/checkpoint",
                                           "/data_types"};

/// Features that change what is trained: refused unless off.
constexpr const char *kUnsupported[] = {"/sparse_attention",
                                        "/compression_training",
                                        "/curriculum_learning",
                                        "/data_efficiency",
                                        "/progressive_layer_drop",
                                        "/pipeline",
                                        "/eigenvalue",
                                        "/amp",
                                        "/sparse_gradients"};

class Translation {
public:
  Translation(const std::string &path, const Json &config) : path(path), config(config) {}

  Result<DeepSpeedConfig> run() {
    for (Status (Translation::*part)() :
         {&Translation::zero, &Translation::offload, &Translation::communication, &Translation::precisionAndBatch,
          &Translation::optimizer, &Translation::forZeroRun, &Translation::refuse})
      ZC_RETURN_IF_ERROR((this->*part)());
    noteUnknown();
    return std::move(result);
  }

private:
  Error wrong(const std::string &key, const std::string &wanted) const {
    return makeError(Code::usage, 126, "\"" + key.substr(1) + "\" is not " + wanted, path);
  }

  /// The value at `key`; null where it is absent, null or "auto".
  const Json *find(const std::string &key) {
    known.push_back(key);
    const Json *value = &config;
    for (size_t at = 0; at < key.size();) {
      size_t end = std::min(key.find('/', at + 1), key.size());
      auto found = value->is_object() ? value->find(key.substr(at + 1, end - at - 1)) : value->end();
      if (!value->is_object() || found == value->end())
        return nullptr;
      value = &*found;
      at = end;
    }
    return value->is_null() || *value == "auto" ? nullptr : value;
  }

  void give(const std::string &name, const std::string &value) { result.options.emplace_back(name, value); }

  Status number(const std::string &key, const std::string &flag, double scale = 1, bool integral = false) {
    const Json *value = find(key);
    if (!value)
      return Status::success();
    if (!value->is_number())
      return wrong(key, "a number");
    double scaled = value->get<double>() * scale;
    if (integral && !(scaled >= 0 && scaled < 0x1p53 && scaled == std::floor(scaled)))
      return wrong(key, "a whole number");
    give(flag, integral ? std::to_string(static_cast<int64_t>(scaled)) : Json(scaled).dump());
    return Status::success();
  }
  Status integer(const std::string &key, const std::string &flag, double scale = 1) {
    return number(key, flag, scale, true);
  }

  Status isOn(const std::string &key, bool &on) {
    const Json *value = find(key);
    on = false;
    if (!value)
      return Status::success();
    if (!value->is_boolean())
      return wrong(key, "true or false");
    on = value->get<bool>();
    return Status::success();
  }

  Status place(const std::string &key, const std::string &flag) {
    const Json *value = find(key);
    if (!value)
      return Status::success();
    for (auto [name, tier] : {std::pair("none", "none"), std::pair("cpu", "host"), std::pair("nvme", "nvme")})
      if (*value == name) {
        give(flag, tier);
        return Status::success();
      }
    return wrong(key, "none, cpu or nvme");
  }

  Status zero() {
    bool half = false;
    for (const char *key : {"/bf16/enabled", "/bfloat16/enabled", "/fp16/enabled"}) {
      bool on = false;
      ZC_RETURN_IF_ERROR(isOn(key, on));
      half |= on;
    }
    double width = half ? 2 : 4; // DeepSpeed counts elements
    ZC_RETURN_IF_ERROR(integer("/zero_optimization/stage", "zero-stage"));
    ZC_RETURN_IF_ERROR(integer("/zero_optimization/reduce_bucket_size", "bucket-size", width));
    return integer("/zero_optimization/stage3_prefetch_bucket_size", "prefetch", width);
  }

  Status offload() {
    const std::string optimizer = "/zero_optimization/offload_optimizer",
                      parameters = "/zero_optimization/offload_param";
    ZC_RETURN_IF_ERROR(place(optimizer + "/device", "offload-optimizer"));
    ZC_RETURN_IF_ERROR(number(optimizer + "/ratio", "offload-ratio"));
    ZC_RETURN_IF_ERROR(place(parameters + "/device", "offload-param"));
    bool on = false; // the old spelling, for both
    ZC_RETURN_IF_ERROR(isOn("/zero_optimization/cpu_offload", on));
    if (on)
      give("offload-optimizer", "host");
    ZC_RETURN_IF_ERROR(isOn("/activation_checkpointing/cpu_checkpointing", on));
    if (on)
      give("offload-activation", "host");
    for (const std::string &tier : {optimizer, parameters})
      if (const Json *folder = find(tier + "/nvme_path"); folder && folder->is_string())
        note("zero-run --nvme-dir " + folder->get<std::string>());
    return Status::success();
  }

  Status communication() {
    bool on = false;
    ZC_RETURN_IF_ERROR(isOn("/zero_optimization/zero_quantized_weights", on));
    if (on)
      give("quantize-weights", "int8");
    ZC_RETURN_IF_ERROR(isOn("/zero_optimization/zero_quantized_gradients", on));
    if (on)
      give("quantize-gradients", "int4");
    const std::string key = "/zero_optimization/zero_hpz_partition_size";
    if (const Json *size = find(key); size && *size != 1) {
      ZC_RETURN_IF_ERROR(integer(key, "ranks-per-node"));
      give("hierarchical", "true");
    }
    return Status::success();
  }

  Status precisionAndBatch() {
    for (auto [key, name] : {std::pair("/bf16/enabled", "bf16"), std::pair("/bfloat16/enabled", "bf16"),
                             std::pair("/fp16/enabled", "fp16")}) {
      bool on = false;
      ZC_RETURN_IF_ERROR(isOn(key, on));
      if (on)
        give("precision", name);
      if (on && name == std::string("fp16"))
        ZC_RETURN_IF_ERROR(lossScale());
    }
    if (const Json *clip = find("/gradient_clipping"); clip && *clip != 0)
      ZC_RETURN_IF_ERROR(number("/gradient_clipping", "clip-grad-norm"));
    ZC_RETURN_IF_ERROR(integer("/gradient_accumulation_steps", "grad-accumulation"));
    if (const Json *rows = find("/train_micro_batch_size_per_gpu"))
      note("--dim NAME=" + rows->dump() + " where the graph's batch is symbolic");
    if (const Json *rows = find("/train_batch_size"))
      note("train_batch_size " + rows->dump() + " is the graph's batch x --grad-accumulation x --world-size");
    return Status::success();
  }

  /// "loss_scale" 0 is a dynamic one, as when it is absent.
  Status lossScale() {
    if (const Json *fixed = find("/fp16/loss_scale"); fixed && *fixed != 0)
      return number("/fp16/loss_scale", "loss-scale");
    if (const Json *power = find("/fp16/initial_scale_power")) {
      if (!power->is_number() || std::abs(power->get<double>()) > 126)
        return wrong("/fp16/initial_scale_power", "a power of two between -126 and 126");
      give("initial-loss-scale", Json(std::exp2(power->get<double>())).dump());
    }
    ZC_RETURN_IF_ERROR(integer("/fp16/loss_scale_window", "loss-scale-window"));
    ZC_RETURN_IF_ERROR(integer("/fp16/hysteresis", "loss-scale-hysteresis"));
    bool on = false;
    ZC_RETURN_IF_ERROR(isOn("/fp16/consecutive_hysteresis", on));
    if (on)
      give("consecutive-hysteresis", "true");
    return number("/fp16/min_loss_scale", "min-loss-scale");
  }

  Status optimizer() {
    const Json *type = find("/optimizer/type");
    if (type) {
      std::string name = type->is_string() ? type->get<std::string>() : "";
      const Json *momentum = find("/optimizer/params/momentum"), *decoupled = find("/optimizer/params/adam_w_mode");
      // DeepSpeed's Adam decays as AdamW does unless told otherwise, and by 0 unless told otherwise.
      if (name == "AdamW" || name == "Adam")
        give("optimizer", name == "Adam" && decoupled && *decoupled == false ? "adam" : "adamw");
      else if (name == "SGD")
        give("optimizer", momentum && *momentum != 0 ? "momentum" : "sgd");
      else
        return makeError(Code::unsupported, 127, "optimizer " + type->dump() + " is not in this version", path,
                         "--optimizer adamw, adam, sgd or momentum");
      if (!find("/optimizer/params/weight_decay"))
        give("weight-decay", "0");
    }
    for (auto [key, flag] : {std::pair("lr", "lr"), std::pair("eps", "eps"), std::pair("weight_decay", "weight-decay"),
                             std::pair("momentum", "momentum")})
      ZC_RETURN_IF_ERROR(number(std::string("/optimizer/params/") + key, flag));
    if (const Json *betas = find("/optimizer/params/betas")) {
      if (!betas->is_array() || betas->size() != 2 || !(*betas)[0].is_number() || !(*betas)[1].is_number())
        return wrong("/optimizer/params/betas", "a list of two numbers");
      give("betas", (*betas)[0].dump() + "," + (*betas)[1].dump());
    }
    return Status::success();
  }

  /// The schedule of the learning rate is the run's.
  Status forZeroRun() {
    known.push_back("/scheduler");
    const Json *type = find("/scheduler/type");
    if (!type)
      return Status::success();
    std::string flags;
    for (auto [name, schedule] : {std::pair("WarmupLR", "constant"), std::pair("WarmupDecayLR", "linear"),
                                  std::pair("WarmupCosineLR", "cosine")})
      if (*type == name)
        flags = std::string("--lr-schedule ") + schedule;
    if (flags.empty())
      return makeError(Code::unsupported, 127, "scheduler " + type->dump() + " is not in this version", path,
                       "zero-run --lr-schedule constant, linear, cosine or wsd");
    if (const Json *warmup = find("/scheduler/params/warmup_num_steps"))
      flags += " --warmup " + warmup->dump();
    if (const Json *steps = find("/scheduler/params/total_num_steps"))
      flags += " --steps " + steps->dump();
    note("zero-run " + flags);
    return Status::success();
  }

  Status refuse() {
    for (const char *key : kUnsupported) {
      const Json *value = find(key);
      bool off = !value || *value == false ||
                 (value->is_object() && (value->empty() || value->value("enabled", Json(true)) == false));
      if (!off)
        return makeError(Code::unsupported, 127, "\"" + std::string(key + 1) + "\" is not in this version", path,
                         "take it out of the configuration if the model does not need it");
    }
    return Status::success();
  }

  void noteUnknown() {
    known.insert(known.end(), std::begin(kWithoutMeaning), std::end(kWithoutMeaning));
    std::string unknown;
    const Json leaves = config.empty() ? Json::object() : config.flatten();
    for (const auto &[key, value] : leaves.items()) {
      bool isKnown = std::any_of(known.begin(), known.end(), [&key = key](const std::string &prefix) {
        return key.compare(0, prefix.size(), prefix) == 0 && (key.size() == prefix.size() || key[prefix.size()] == '/');
      });
      if (!isKnown && value != "auto")
        unknown += (unknown.empty() ? "" : ", ") + key.substr(1);
    }
    if (!unknown.empty())
      note("not known, and not heeded: " + escapeName(unknown));
  }

  void note(std::string text) {
    if (std::find(result.notes.begin(), result.notes.end(), text) == result.notes.end())
      result.notes.push_back(std::move(text));
  }

  const std::string &path;
  const Json &config;
  std::vector<std::string> known; ///< keys that were asked for
  DeepSpeedConfig result;
};

/// Of keys that an object has twice, which the library would take the last of, one in `twice`.
Json parseNotingTwice(const std::string &text, std::string &twice) {
  std::vector<std::set<std::string>> open;
  auto watch = [&](int, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      open.pop_back();
    else if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  return Json::parse(text, watch, /*allow_exceptions=*/false, /*ignore_comments=*/true);
}

} // namespace

Result<DeepSpeedConfig> readDeepSpeedConfig(const std::string &path) {
  Result<std::string> text = readFile(path, kMostBytes);
  if (!text)
    return text.error();
  std::string twice;
  Json config = parseNotingTwice(*text, twice);
  if (!twice.empty())
    return makeError(Code::usage, 126, "\"" + twice + "\" is given twice", path, "the two may say different things");
  if (!config.is_object())
    return makeError(Code::usage, 126, "this is no JSON object", path, "--config takes a DeepSpeed configuration");
  return Translation(path, config).run();
}

Result<std::vector<std::string>> applyDeepSpeedConfig(const std::string &path, const OptionList &list,
                                                      std::set<std::string> &given) {
  Result<DeepSpeedConfig> config = readDeepSpeedConfig(path);
  if (!config)
    return config.error();
  std::string taken;
  for (const auto &[name, value] : config->options) {
    const Option *option = list.find(name);
    if (!option)
      return makeError(Code::internal, 128, "there is no option \"" + name + "\"", path,
                       "this is a defect of zero-compile; please report it");
    if (!given.insert(name).second)
      continue;
    ZC_RETURN_IF_ERROR(option->read(value));
    taken += " --" + name + (option->kind == Option::Kind::flag ? "" : " " + value);
  }
  std::vector<std::string> notes{escapeName(path) + " means" +
                                 (taken.empty() ? " nothing beyond the flags given" : taken)};
  for (const std::string &note : config->notes)
    notes.push_back(escapeName(path) + ": " + note);
  return notes;
}

} // namespace zc
