// The generator's list of kernels, and choosing among them.
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "autotune/build/process.h"
#include "autotune/space/space.h"
#include "autotune/status.h"

namespace gdn::tune {

namespace {

// Letters to insert, remove or exchange until `name` matches `glob`, whose * is anything and whose ? is any letter.
int edit_distance(const std::string &glob, const std::string &name) {
    std::vector<int> row(name.size() + 1);
    for (size_t j = 0; j <= name.size(); j++) row[j] = static_cast<int>(j);
    for (char g : glob) {
        int diagonal = row[0];
        if (g != '*') row[0]++;
        for (size_t j = 1; j <= name.size(); j++) {
            const int above = row[j];
            row[j] =
                g == '*' ? std::min(above, row[j - 1]) : std::min({diagonal + (g != '?' && g != name[j - 1]), above + 1, row[j - 1] + 1});
            diagonal = above;
        }
    }
    return row[name.size()];
}

std::string joined(const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

}  // namespace

std::vector<Kernel> list_kernels(const std::string &generator, const std::string &kernels_json) {
    ChildOptions options;
    options.argv = {generator, "--list", "--json", "--kernels", kernels_json};
    options.merge_stderr = true;
    std::string output;
    const Exit exit = run(options, 60, &output);
    while (!output.empty() && output.back() == '\n') output.pop_back();
    if (!exit.ok()) throw Error("the generator " + generator + " does not list its kernels (" + exit.text + "): " + output);
    try {
        const nlohmann::ordered_json list = nlohmann::ordered_json::parse(output);
        std::vector<Kernel> kernels;
        for (const auto &k : list.at("kernels")) {
            Kernel kernel{k.at("name"), k.at("family"), k.at("target"), {}, k.at("arguments"), Space::parse(k.at("space").dump())};
            if (!k.at("params").is_null()) kernel.params = k.at("params").get<std::map<std::string, std::string>>();
            kernels.push_back(std::move(kernel));
        }
        return kernels;
    } catch (const nlohmann::json::exception &e) {
        throw Error("what the generator " + generator + " lists is not its kernels as JSON: " + e.what());
    }
}

const Kernel *find_kernel(const std::vector<Kernel> &kernels, const std::string &name, const std::string &target) {
    const auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel &k) { return k.name == name && k.target == target; });
    return kernel == kernels.end() ? nullptr : &*kernel;
}

std::vector<Kernel> select_kernels(const std::vector<Kernel> &kernels, const std::string &glob, const std::string &target) {
    std::vector<Kernel> selected;
    std::set<std::string> targets, names;
    for (const Kernel &k : kernels) {
        targets.insert(k.target);
        if (!target.empty() && k.target != target) continue;
        names.insert(k.name);
        if (fnmatch(glob.c_str(), k.name.c_str(), 0) == 0) selected.push_back(k);
    }
    if (!selected.empty()) return selected;
    if (!target.empty() && !targets.count(target)) {
        throw Error("no target is called " + target + "; there are " + joined({targets.begin(), targets.end()}));
    }
    std::vector<std::tuple<int, int, std::string>> near;  // as a part of the name, as the whole of it
    for (const std::string &name : names) near.emplace_back(edit_distance("*" + glob + "*", name), edit_distance(glob, name), name);
    std::sort(near.begin(), near.end());
    std::vector<std::string> nearest;
    for (size_t i = 0; i < near.size() && i < 3; i++) nearest.push_back(std::get<2>(near[i]));
    throw Error("no kernel" + (target.empty() ? "" : " of " + target) + " matches " + glob + "; the nearest are " + joined(nearest));
}

}  // namespace gdn::tune
