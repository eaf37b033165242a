#include "compiler/config/DeepSpeedKeys.h"
#include "base/Suggest.h"

#include <cmath>

namespace zc {

using Json = nlohmann::json;

namespace {

/// Keys that tune DeepSpeed's run time, print, or have only one meaning here: all that is below them is passed over.
constexpr const char *kWithoutMeaning[] = {"/zero_optimization/overlap_comm",
                                           "/zero_optimization/contiguous_gradients",
                                           "/zero_optimization/reduce_scatter",
                                           "/zero_optimization/use_multi_rank_bucket_allreduce",
                                           "/zero_optimization/allgather_partitions",
                                           "/zero_optimization/allgather_bucket_size",
                                           "/zero_optimization/sub_group_size",
                                           "/zero_optimization/round_robin_gradients",
                                           "/zero_optimization/stage3_max_live_parameters",
                                           "/zero_optimization/stage3_max_reuse_distance",
                                           "/zero_optimization/stage3_param_persistence_threshold",
                                           "/zero_optimization/stage3_model_persistence_threshold",
                                           "/zero_optimization/stage3_gather_16bit_weights_on_model_save",
                                           "/zero_optimization/stage3_gather_fp16_weights_on_model_save",
                                           "/zero_optimization/stage3_module_granularity_threshold",
                                           "/zero_optimization/stage3_use_all_reduce_for_fetch_params",
                                           "/zero_optimization/max_live_parameters",
                                           "/zero_optimization/max_reuse_distance",
                                           "/zero_optimization/param_persistence_threshold",
                                           "/zero_optimization/model_persistence_threshold",
                                           "/zero_optimization/gather_16bit_weights_on_model_save",
                                           "/zero_optimization/cpu_offload_use_pin_memory",
                                           "/zero_optimization/ignore_unused_parameters",
                                           "/zero_optimization/load_from_fp32_weights",
                                           "/zero_optimization/elastic_checkpoint",
                                           "/zero_optimization/legacy_stage1",
                                           "/zero_optimization/log_trace_cache_warnings",
                                           "/zero_optimization/memory_efficient_linear",
                                           "/zero_optimization/pipeline_loading_checkpoint",
                                           "/zero_optimization/mics_hierarchical_params_gather",
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
                                           "/fp16/auto_cast",
                                           "/bf16/immediate_grad_update",
                                           "/bf16/check_grad_overflow",
                                           "/aio",
                                           "/optimizer/params/fused",
                                           "/optimizer/params/foreach",
                                           "/optimizer/params/capturable",
                                           "/optimizer/params/set_grad_none",
                                           "/optimizer/legacy_fusion",
                                           "/scheduler/params/last_batch_iteration",
                                           "/zero_allow_untested_optimizer",
                                           "/zero_force_ds_cpu_optimizer",
                                           "/activation_checkpointing",
                                           "/autotuning",
                                           "/compile",
                                           "/steps_per_print",
                                           "/wall_clock_breakdown",
                                           "/memory_breakdown",
                                           "/dump_state",
                                           "/timers",
                                           "/flops_profiler",
                                           "/tensorboard",
                                           "/wandb",
                                           "/comet",
                                           "/csv_monitor",
                                           "/comms_logger",
                                           "/prescale_gradients",
                                           "/gradient_predivide_factor",
                                           "/disable_allgather",
                                           "/dataloader_drop_last",
                                           "/load_universal_checkpoint",
                                           "/checkpoint"};

/// May be "auto" without a meaning here, as Hugging Face's Trainer fills them in: sizes of pieces, which change no
/// number that is trained, and what is filled in with what it is anyway. The keys that isAuto is asked for are resolved
/// by who asks.
constexpr const char *kFilledIn[] = {"/zero_optimization/reduce_bucket_size",
                                     "/zero_optimization/stage3_prefetch_bucket_size",
                                     "/scheduler/params/warmup_min_lr"};

/// The names that a key goes through.
std::vector<std::string> namesIn(const std::string &key) {
  std::vector<std::string> names;
  for (size_t at = 0; at < key.size();) {
    size_t end = std::min(key.find('/', at + 1), key.size());
    names.push_back(key.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}

bool isAtOrBelow(const std::string &key, const std::string &prefix) {
  return key.compare(0, prefix.size(), prefix) == 0 && (key.size() == prefix.size() || key[prefix.size()] == '/');
}

} // namespace

Error DeepSpeedKeys::wrong(const std::string &key, const std::string &wanted) const {
  return wrongConfig("\"" + key.substr(1) + "\" is not " + wanted, path, "");
}

Error DeepSpeedKeys::unsupported(const std::string &what, const std::string &help) const {
  return makeError(Code::unsupported, 127, what, path, help);
}

const Json *DeepSpeedKeys::at(const std::string &key) {
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
  return value->is_null() ? nullptr : value;
}

const Json *DeepSpeedKeys::find(const std::string &key) {
  const Json *value = at(key);
  if (!value || *value != "auto")
    return value;
  autos.insert(key);
  return nullptr;
}

bool DeepSpeedKeys::isAuto(const std::string &key) {
  const Json *value = at(key);
  resolved.insert(key);
  return value && *value == "auto";
}

Status DeepSpeedKeys::refuseAutos() {
  for (const std::string &key : autos)
    if (!resolved.count(key) && std::none_of(std::begin(kFilledIn), std::end(kFilledIn),
                                             [&](const std::string &prefix) { return key.rfind(prefix, 0) == 0; }))
      return unsupported("\"" + key.substr(1) + "\" is \"auto\", which nobody fills in", "say what it is");
  return Status::success();
}

Status DeepSpeedKeys::read(const std::string &key, double &value) {
  const Json *found = find(key);
  if (!found)
    return Status::success();
  if (!found->is_number())
    return wrong(key, "a number");
  value = found->get<double>();
  return Status::success();
}

Status DeepSpeedKeys::read(const std::string &key, int64_t &value, int64_t least) {
  double number = double(value);
  ZC_RETURN_IF_ERROR(read(key, number));
  if (find(key) && !(number >= double(least) && number < 0x1p53 && number == std::floor(number)))
    return wrong(key, least > 0 ? "a whole number of " + std::to_string(least) + " or more" : "a whole number");
  value = int64_t(number);
  return Status::success();
}

Status DeepSpeedKeys::read(const std::string &key, bool &value) {
  const Json *found = find(key);
  if (!found)
    return Status::success();
  if (!found->is_boolean())
    return wrong(key, "true or false");
  value = found->get<bool>();
  return Status::success();
}

Status DeepSpeedKeys::isOn(const std::string &key, bool &on) {
  on = false;
  return read(key, on);
}

Status DeepSpeedKeys::number(const std::string &key, const std::string &option, double scale) {
  double value = 0;
  ZC_RETURN_IF_ERROR(read(key, value));
  if (find(key))
    give(option, Json(value * scale).dump(), key);
  return Status::success();
}

Status DeepSpeedKeys::integer(const std::string &key, const std::string &option, double scale) {
  int64_t value = 0;
  ZC_RETURN_IF_ERROR(read(key, value));
  if (find(key))
    give(option, std::to_string(int64_t(double(value) * scale)), key);
  return Status::success();
}

Status DeepSpeedKeys::mustBe(const std::string &key, const Json &off, const char *why) {
  const Json *value = find(key);
  if (!value || *value == off)
    return Status::success();
  return unsupported("\"" + key.substr(1) + "\": " + escapeName(value->dump().substr(0, 100)) + " " + why);
}

Status DeepSpeedKeys::mustBeOff(const std::string &section) {
  const Json *value = find(section);
  known.push_back(section);
  bool off = !value || *value == false ||
             (value->is_object() && (value->empty() || value->value("enabled", Json(true)) == false));
  return off ? Status::success()
             : unsupported("\"" + section.substr(1) + "\" is not in this version",
                           "take it out of the configuration if the model does not need it");
}

bool DeepSpeedKeys::isKnown(const std::string &key) const {
  auto covers = [&](const std::string &prefix) { return isAtOrBelow(key, prefix); };
  return std::any_of(known.begin(), known.end(), covers) ||
         std::any_of(std::begin(kWithoutMeaning), std::end(kWithoutMeaning), covers);
}

bool DeepSpeedKeys::isSection(const std::string &key) const {
  auto isBelow = [&](const std::string &other) { return isAtOrBelow(other, key); };
  return std::any_of(known.begin(), known.end(), isBelow) ||
         std::any_of(std::begin(kWithoutMeaning), std::end(kWithoutMeaning), isBelow);
}

Status DeepSpeedKeys::refuseTheRest() {
  std::vector<std::string> names;
  for (const std::string &key : known)
    for (std::string &name : namesIn(key))
      names.push_back(std::move(name));
  ZC_RETURN_IF_ERROR(refuseAutos());
  std::string unknown, near;
  const Json leaves = config.empty() ? Json::object() : config.flatten();
  for (const auto &[key, value] : leaves.items()) {
    const bool saysNothing = value.is_null(); // what flatten() makes of {} too
    if (!isKnown(key) && !(saysNothing && isSection(key))) {
      unknown += (unknown.empty() ? "\"" : ", \"") + key.substr(1) + "\"";
      for (const std::string &name : namesIn(key))
        if (std::find(names.begin(), names.end(), name) == names.end() && near.empty())
          near = nearest(name, names);
    }
  }
  if (unknown.empty())
    return Status::success();
  return unsupported("not known: " + escapeName(unknown.substr(0, 1000)),
                     (near.empty() ? "" : "did you mean \"" + near + "\"? ") +
                         std::string("what could change what is trained is not passed over"));
}

void DeepSpeedKeys::note(std::string text) {
  if (std::find(notes.begin(), notes.end(), text) == notes.end())
    notes.push_back(std::move(text));
}

} // namespace zc
