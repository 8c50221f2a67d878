#include "autotune/data/tree.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace gdn::tune {

namespace fs = std::filesystem;

namespace {

std::string place(const std::string &folder, const std::string &target, const std::string &name) {
    return (fs::path(folder) / target / (name + ".json")).string();
}

/// Adds the file if it differs from what is there.
void put(Update *update, const std::string &path, const std::string &text) {
    if (!fs::exists(path) || file_text(path) != text) update->files.emplace_back(path, text);
}

void put_cover(Update *update, const std::string &folder, const std::string &target, const std::vector<DeviceFile> &devices,
    const std::vector<Kernel> &kernels) {
    const size_t before = update->files.size();
    put(update, place(folder, target, "default"), cover_json(target, devices, kernels));
    if (update->files.size() > before) update->changes.push_back(target + "/default.json: computed again");
}

/// The complete configuration; empty where the space does not have it.
Config complete(const Kernel &kernel, const Config &config) {
    try {
        return kernel.space.config(kernel.space.point(config));
    } catch (const Error &) {
        return {};
    }
}

bool has_class(const Kernel &kernel, LengthClass c) {
    const std::vector<LengthClass> classes = classes_of(kernel.family);
    return std::find(classes.begin(), classes.end(), c) != classes.end();
}

/// Why require_known() refuses this entry, "" if it does not.
std::string refusal(
    const DeviceFile &file, const std::string &kernel, LengthClass c, const Entry &entry, const std::vector<Kernel> &kernels) {
    try {
        require_known({file.target, file.device, {{kernel, {{c, entry}}}}}, kernels);
        return "";
    } catch (const Error &error) {
        return error.what();
    }
}

}  // namespace

std::vector<DeviceFile> read_target(const std::string &folder, const std::string &target) {
    std::vector<std::string> paths;
    const fs::path here = fs::path(folder) / target;
    if (fs::is_directory(here)) {
        for (const fs::directory_entry &entry : fs::directory_iterator(here)) {
            if (entry.path().extension() == ".json" && entry.path().stem() != "default") paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.begin(), paths.end());
    std::vector<DeviceFile> files;
    for (const std::string &path : paths) {
        files.push_back(read_device_file(path));
        const std::string key = files.back().device.key();
        if (files.back().target != target) throw Error(path + ": is of the target " + files.back().target);
        if (fs::path(path).stem() != key) throw Error(path + ": is of the device " + key);
    }
    return files;
}

Update merged(const std::string &folder, const std::vector<DeviceFile> &files, const std::vector<Kernel> &kernels,
    const std::string &generator_hash) {
    std::map<std::string, std::vector<DeviceFile>> targets;
    Update update;
    for (const DeviceFile &file : files) {
        require_known(file, kernels);
        const auto [target, added] = targets.emplace(file.target, std::vector<DeviceFile>());
        if (added) target->second = read_target(folder, file.target);
        std::vector<DeviceFile> &devices = target->second;
        auto device =
            std::find_if(devices.begin(), devices.end(), [&](const DeviceFile &d) { return d.device.key() == file.device.key(); });
        if (device == devices.end()) device = devices.insert(devices.end(), {file.target, file.device, {}});
        for (const std::string &line : merge(&*device, file, generator_hash)) {
            update.changes.push_back(file.target + "/" + file.device.key() + ".json: " + line);
        }
    }
    for (const auto &[target, devices] : targets) {
        for (const DeviceFile &device : devices) put(&update, place(folder, target, device.device.key()), text_of(device));
        put_cover(&update, folder, target, devices, kernels);
    }
    return update;
}

Update covered(const std::string &folder, const std::string &target, const std::vector<Kernel> &kernels) {
    std::set<std::string> targets;
    for (const Kernel &kernel : kernels) {
        if (target.empty() ? fs::is_directory(fs::path(folder) / kernel.target) : kernel.target == target) targets.insert(kernel.target);
    }
    if (targets.empty()) throw Error(target.empty() ? folder + " has no folder of a target" : "there is no target \"" + target + "\"");
    Update update;
    for (const std::string &name : targets) put_cover(&update, folder, name, read_target(folder, name), kernels);
    return update;
}

std::vector<Stale> stale(const DeviceFile &file, const std::vector<Kernel> &kernels, const std::string &generator_hash) {
    std::vector<Stale> all;
    for (const auto &[name, classes] : file.kernels) {
        const Kernel *kernel = find_kernel(kernels, name, file.target);
        for (const auto &[c, entry] : classes) {
            Stale one{file.target, file.device.key(), name, c, refusal(file, name, c, entry, kernels), false, entry.shapes, {}};
            one.lost = kernel == nullptr || !has_class(*kernel, c) || complete(*kernel, entry.config).empty();
            if (one.why.empty() && complete(*kernel, entry.default_config) != complete(*kernel, {})) {
                const Config was = complete(*kernel, entry.default_config), is = complete(*kernel, {});
                one.why = "the default was " + text_of(changed(was, is)) + " and is " + text_of(changed(is, was));
            }
            if (one.why.empty() && entry.generator_hash != generator_hash) {
                one.why = "made with the generator " + entry.generator_hash + ", not " + generator_hash;
            }
            if (one.why.empty()) continue;
            for (const auto &[config, cost] : entry.others) {
                const Config now = kernel ? changed(complete(*kernel, config), complete(*kernel, {})) : Config();
                if (!now.empty() && std::find(one.configs.begin(), one.configs.end(), now) == one.configs.end()) one.configs.push_back(now);
            }
            all.push_back(one);
        }
    }
    return all;
}

Update dropped(const std::string &folder, const std::vector<Kernel> &kernels, const Chosen &chosen) {
    std::set<std::string> targets;
    for (const Kernel &kernel : kernels) targets.insert(kernel.target);
    const auto remove = [](DeviceFile *file, const std::string &kernel, LengthClass c) {
        file->kernels[kernel].erase(c);
        if (file->kernels[kernel].empty()) file->kernels.erase(kernel);
    };
    Update update;
    for (const std::string &target : targets) {
        std::vector<DeviceFile> fitting;  // what nobody chose may be refused too, and no cover counts it
        const size_t before = update.changes.size();
        for (const DeviceFile &file : read_target(folder, target)) {
            const std::string key = file.device.key();
            DeviceFile kept = file, fits = file;
            const size_t others = update.changes.size();
            for (const auto &[name, classes] : file.kernels) {
                for (const auto &[c, entry] : classes) {
                    const std::string why = refusal(file, name, c, entry, kernels);
                    if (why.empty()) continue;
                    remove(&fits, name, c);
                    if (!chosen(target, key, name)) continue;
                    remove(&kept, name, c);
                    update.changes.push_back("dropped: " + why);
                }
            }
            if (update.changes.size() > others) put(&update, place(folder, target, key), text_of(kept));
            fitting.push_back(fits);
        }
        if (update.changes.size() > before) put_cover(&update, folder, target, fitting, kernels);
    }
    return update;
}

}  // namespace gdn::tune
