#include "schedules.h"

#include "cpu/cpu.h"

namespace gdn {

Space core_chunk_space(const Machine &m, const Size &size, bool low, bool snapshots) {
    return m.schedule == "reference" ? reference_core_chunk_space(size) : cpu_core_chunk_space(m, size, low, snapshots);
}

void apply_core_chunk(CoreChunkStages &st, const Config &config, const Machine &m) {
    if (m.schedule == "reference") {
        reference_apply_core_chunk(st, config, m);
    } else {
        cpu_apply_core_chunk(st, config, m);
    }
}

Space core_step_space(const Machine &m, const Size &size, bool v_first) {
    return m.schedule == "reference" ? reference_core_step_space() : cpu_core_step_space(m, size, v_first);
}

void apply_core_step(CoreStepStages &st, const Config &config, const Machine &m) {
    if (m.schedule == "reference") {
        reference_apply_core_step(st, config, m);
    } else {
        cpu_apply_core_step(st, config, m);
    }
}

// There is no reference schedule: where the kernel is missing, the runtime settles the pending write and calls core_step.
Space core_pending_space(const Machine &m, const Size &size) { return cpu_core_pending_space(m, size); }

void apply_core_pending(CorePendingStages &st, const Config &config, const Machine &m) { cpu_apply_core_pending(st, config, m); }

Space short_conv_space(const Machine &m) { return m.schedule == "reference" ? Space() : cpu_short_conv_space(m); }

void apply_short_conv(ShortConvStages &st, const Config &config, const Machine &m) {
    if (m.schedule == "reference") {
        reference_apply_short_conv(st, m);
    } else {
        cpu_apply_short_conv(st, config, m);
    }
}

// No reference schedule: short_conv does it where this kernel is missing.
Space short_conv_step_space(const Machine &m) { return cpu_short_conv_step_space(m); }

void apply_short_conv_step(ShortConvStepStages &st, const Config &config, const Machine &m) { cpu_apply_short_conv_step(st, config, m); }

Space gated_norm_space(const Machine &m) { return m.schedule == "reference" ? reference_gated_norm_space() : cpu_gated_norm_space(m); }

void apply_gated_norm(GatedNormStages &st, const Config &config, const Machine &m) {
    if (m.schedule == "reference") {
        reference_apply_gated_norm(st, m);
    } else {
        cpu_apply_gated_norm(st, config, m);
    }
}

Space space_of(const std::string &family, const std::map<std::string, std::string> &params, const Machine &m) {
    const bool block = family == "core_block";
    if (family == "core_chunk" || block) {
        const auto precision = params.find("precision");
        return core_chunk_space(m, Size(params.at("size")), precision != params.end() && precision->second == "low", block);
    }
    if (family == "core_step") return core_step_space(m, Size(params.at("size")), params.at("layout") == "vfirst");
    if (family == "core_pending") return core_pending_space(m, Size(params.at("size")));
    if (family == "stage") return stage_space(m, params.at("size") == "any", params.at("form"));
    if (family == "map") return map_space(m);
    if (family == "store") return store_space(m);
    if (family == "short_conv") return short_conv_space(m);
    if (family == "short_conv_step") return short_conv_step_space(m);
    if (family == "gated_norm") return gated_norm_space(m);
    return {};
}

void require_all_read(const Config &config) {
    static const char *const kRuntime[] = {"time_block", "task_grain", "short_steps", "tail_steps", "v_slice_min", "fetch_ahead"};
    for (const std::string &name : config.unread()) {
        bool runtime = false;
        for (const char *r : kRuntime) runtime |= name == r;
        _halide_user_assert(runtime) << "parameter '" << name << "' of the space was not read by the schedule\n";
    }
}

}  // namespace gdn
