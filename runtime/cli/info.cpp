// gdn info: this machine, and what the library does on it.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "command.h"
#include "console.h"
#include "machine.h"
#include "operator.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;

ordered_json facts() {
    gdn_device_info device;
    check(gdn_device_get(&device), "device");
    ordered_json json = {{"version", gdn_version()}, {"cpu", cpu_name()}, {"cpus", allowed_cpus()},
        {"device", {{"vendor", device.vendor}, {"name", device.name}, {"architecture", device.architecture}, {"key", device.key}}}};
    for (int level = 1; level <= 3; level++) json["cache_bytes"]["l" + std::to_string(level)] = cache_bytes(level);
    json["huge_pages"] = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
    json["governor"] = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    json["load_average"] = first_line("/proc/loadavg");

    std::map<std::string, int> kernels;
    for (int64_t i = 0; i < gdn_kernel_count(); i++) {
        gdn_kernel_info info;
        check(gdn_kernel_get(i, &info), "kernel list");
        kernels[info.target]++;
    }
    json["target"] = explain(Context("auto", 1), Problem(Setup(), Inputs::kNone, 0).args)["target"];
    json["targets"] = ordered_json::array();
    for (int64_t i = 0; i < gdn_target_count(); i++) {
        gdn_target_info info;
        check(gdn_target_get(i, &info), "target list");
        const int lanes = vector_lanes(info.name);
        json["targets"].push_back(
            {{"name", info.name}, {"runs_here", info.runs_here != 0}, {"kernels", kernels[info.name]}, {"lanes", lanes},
                {"peak_gflops", info.runs_here ? ordered_json(fma_peak(lanes)) : ordered_json(nullptr)}, {"features", info.features}});
    }
    for (const char *name : {"GDN_TARGET", "GDN_NUM_THREADS", "GDN_TUNED_DIR", "GDN_LOG", "GDN_GENERATOR"}) {
        const char *value = std::getenv(name);
        json["environment"][name] = value ? ordered_json(value) : ordered_json(nullptr);
    }
    return json;
}

std::string size_text(int64_t bytes) {
    return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

void print(const ordered_json &json) {
    const Style &s = style();
    std::printf("%sgdn %s%s\n", s.bold, json["version"].get<std::string>().c_str(), s.off);
    std::printf("  CPU          %s, %zu usable here\n", json["cpu"].get<std::string>().c_str(), json["cpus"].size());
    std::printf("  device       %s, architecture %s\n", json["device"]["key"].get<std::string>().c_str(),
        json["device"]["architecture"].get<std::string>().c_str());
    std::printf("  caches       L1d %s, L2 %s, L3 %s\n", size_text(json["cache_bytes"]["l1"]).c_str(),
        size_text(json["cache_bytes"]["l2"]).c_str(), size_text(json["cache_bytes"]["l3"]).c_str());
    std::printf("  huge pages   %s\n  load         %s\n", json["huge_pages"].get<std::string>().c_str(),
        json["load_average"].get<std::string>().c_str());
    std::printf("%stargets%s\n", s.bold, s.off);
    for (const ordered_json &target : json["targets"]) {
        const bool here = target["runs_here"], chosen = target["name"] == json["target"];
        std::printf("  %-16s %4d kernels  %s%s%s  %s\n", target["name"].get<std::string>().c_str(), target["kernels"].get<int>(),
            here ? s.good : s.dim, here ? "runs here" : "not here ", s.off,
            here ? format("%.0f GFLOP/s a core at %d lanes%s", target["peak_gflops"].get<double>(), target["lanes"].get<int>(),
                       chosen ? ", chosen" : "")
                       .c_str()
                 : "");
    }
    for (const auto &[name, value] : json["environment"].items()) {
        if (!value.is_null()) std::printf("  %s=%s\n", name.c_str(), value.get<std::string>().c_str());
    }
}

}  // namespace

void add_info(CLI::App &app) {
    CLI::App &info = *app.add_subcommand("info", "This machine, the targets of the library and which one is chosen");
    auto json = std::make_shared<bool>(false);
    info.add_flag("--json", *json, "Print one JSON object");
    info.footer("Examples:\n  gdn info\n  GDN_TARGET=x86_avx2 gdn info --json");
    info.callback([json] {
        const ordered_json result = facts();
        if (*json)
            std::printf("%s\n", result.dump(2).c_str());
        else
            print(result);
    });
}

}  // namespace gdn::cli
