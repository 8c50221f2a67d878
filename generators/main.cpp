// The generator program. Besides Halide's own command line (-g NAME -f FUNCTION -o DIR -e OUTPUTS target=.. param=value..):
//   --list --json                every kernel of the list with its space and configuration
//   --table MACHINE -o FILE      the dispatch table of libgdn as C++
//   --version                    a hash of the sources that it was built from, and its compiler
// the first two with [--kernels FILE] [--tuned DIR] [--select all|DEVICE KEY] [--targets a,b]: of the configurations that tuned data has of a kernel,
// those of the cover, all, or those that one device uses.
#include <Halide.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../runtime/src/row_config.h"
#include "../schedules/schedules.h"
#include "generator_sources.h"
#include "tuned.h"

using nlohmann::ordered_json;
using std::string;

namespace gdn {
namespace {

struct TargetSpec {
    string name, machine, schedule, halide, features;
};

struct KernelSpec {
    string name, family, symbol;  // the symbol of the default configuration
    std::vector<std::pair<string, string>> params;  // in the list's order
    int target = 0;
    string arguments;  // what makes the kernel again, without configuration, function name and outputs
    Selection selection;

    string symbol_of(const Configuration &c) const {
        string text = symbol + (c.compiled.empty() ? "" : "__");
        for (char letter : c.compiled) {
            if (letter != ':') text += letter == ',' ? '_' : letter;
        }
        return text;
    }
    string arguments_of(const Configuration &c) const { return arguments + (c.compiled.empty() ? "" : " config=" + c.compiled); }

    string param(const string &key) const {
        for (const auto &[k, v] : params) {
            if (k == key) return v;
        }
        return "";
    }
};

struct Options {
    string kernels = "generators/kernels.json", tuned, select, machine, output, targets;
    bool list = false;
};

ordered_json read_json(const string &path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error("cannot read " + path);
    return ordered_json::parse(in);
}

struct List {
    std::vector<TargetSpec> targets;
    std::vector<KernelSpec> kernels;
};

Space space_of_kernel(const List &list, const KernelSpec &k) {
    const TargetSpec &t = list.targets[k.target];
    const std::map<string, string> params(k.params.begin(), k.params.end());
    return space_of(k.family, params, machine_of(Halide::Target(t.halide), t.schedule));
}

List read_list(const Options &options) {
    List list;
    const ordered_json json = read_json(options.kernels);
    std::vector<string> names;
    for (const auto &t : json["targets"]) {
        list.targets.push_back({t["name"], t["machine"], t["schedule"], t["halide"], t["features"]});
        names.push_back(t["name"]);
    }
    const Tuned tuned(options.tuned, names, options.select);
    for (const auto &entry : json["kernels"]) {
        std::vector<std::vector<std::pair<string, string>>> points(1);
        for (const auto &[key, values] : entry["params"].items()) {
            std::vector<std::vector<std::pair<string, string>>> longer;
            for (const auto &point : points) {
                for (const auto &value : values) {
                    longer.push_back(point);
                    longer.back().emplace_back(key, value);
                }
            }
            points = longer;
        }
        for (const auto &point : points) {
            for (const auto &target_name : entry["targets"]) {
                KernelSpec k;
                k.family = entry["family"];
                k.name = k.family;
                k.params = point;
                for (const auto &param : point) k.name += "_" + param.second;
                while (list.targets.at(k.target).name != target_name) k.target++;
                const TargetSpec &t = list.targets[k.target];
                k.symbol = "gdnk_" + k.name + "__" + t.name;
                k.arguments = "-g " + k.family + " target=" + t.halide + "-no_runtime-no_asserts-no_bounds_query-user_context";
                for (const auto &[key, value] : point) k.arguments += " " + key + "=" + value;
                k.arguments += " schedule=" + t.schedule;
                k.selection = tuned.selection(t.name, k.name, k.family, space_of_kernel(list, k));
                list.kernels.push_back(k);
            }
        }
    }
    tuned.require_all_used();
    return list;
}

void print_list(const List &list) {
    static const char *const kinds[] = {"algorithm", "schedule", "runtime"};
    ordered_json kernels = ordered_json::array();
    for (const KernelSpec &k : list.kernels) {
        const Space space = space_of_kernel(list, k);
        ordered_json params, parameters = ordered_json::array(), constraints = ordered_json::array(), configurations = ordered_json::array();
        for (const auto &[key, value] : k.params) params[key] = value;
        for (const Param &p : space.params()) {
            parameters.push_back({{"name", p.name}, {"kind", kinds[int(p.kind)]}, {"values", p.values}, {"default", p.default_value}});
        }
        for (const Constraint &c : space.constraints()) {
            const Allowed allowed = space.allowed(c);
            constraints.push_back({{"text", c.text}, {"parameters", allowed.parameters}, {"allowed", allowed.rows}});
        }
        for (const Configuration &c : k.selection.configurations) {
            configurations.push_back({{"config", c.config.values()}, {"symbol", k.symbol_of(c)}, {"arguments", k.arguments_of(c)}});
        }
        kernels.push_back({{"name", k.name}, {"family", k.family}, {"target", list.targets[k.target].name}, {"params", params},
                           {"symbol", k.symbol}, {"arguments", k.arguments},
                           {"space", {{"parameters", parameters}, {"constraints", constraints}}},
                           {"config", space.defaults().values()}, {"configurations", configurations}});
    }
    std::cout << ordered_json{{"kernels", kernels}}.dump(1) << "\n";
}

// Value of an enum of runtime/src/kernel_table.h from its spelling in the list; kNone when the kernel has no such parameter.
string enum_value(const string &type, const string &text) {
    static const std::map<string, string> names{
        {"", "kNone"}, {"stage", "kStage"}, {"map", "kMap"}, {"core_chunk", "kCoreChunk"}, {"core_step", "kCoreStep"}, {"core_pending", "kCorePending"}, {"core_block", "kCoreBlock"}, {"store", "kStore"},
        {"short_conv", "kShortConv"}, {"short_conv_step", "kShortConvStep"}, {"gated_norm", "kGatedNorm"},
        {"kfirst", "kKFirst"}, {"vfirst", "kVFirst"}, {"gdn", "kGdn"}, {"kda", "kKda"}, {"gdn2", "kGdn2"}, {"fg2_plus", "kFg2Plus"},
        {"log", "kLog"}, {"linear", "kLinear"}, {"norm", "kNorm"}, {"logits", "kLogits"}, {"copy", "kCopy"}, {"sigmoid", "kSigmoid"},
        {"exp", "kExp"}, {"softplus", "kSoftplus"}, {"lower_bound", "kLowerBound"}, {"l2norm", "kL2Norm"},
        {"f32", "kF32"}, {"bf16", "kBf16"}, {"f16", "kF16"}, {"low", "kLow"}};
    const auto it = names.find(text);
    if (it == names.end()) throw std::runtime_error("no " + type + " is called " + text);
    return type + "::" + it->second;
}

// One line of kChoiceRows; `first` is the row of the kernel's first configuration.
string choice_row(const Use &use, int first) {
    static const std::map<string, string> names{{"device", "kDevice"}, {"architecture", "kArchitecture"}, {"vendor", "kVendor"}, {"default", "kDefault"},
                                                {"any", "kAny"}, {"decode", "kDecode"}, {"block", "kBlock"}, {"short", "kShort"}, {"long", "kLong"}};
    const string key = ordered_json(use.key).dump();  // quoted
    return "    {Level::" + names.at(use.level) + ", LengthClass::" + names.at(use.length_class) + ", " + key + ", " + std::to_string(first + use.configuration) + "},\n";
}

string table_row(const List &list, const KernelSpec &k, const Configuration &configuration, const std::map<int, int> &target_index) {
    const TargetSpec &t = list.targets[k.target];
    const Config &config = configuration.config;
    const string symbol = k.symbol_of(configuration);
    const bool is_core = k.family.compare(0, 4, "core") == 0;
    string decay = "DecayShape::kNone", erase = "Erase::kNone";
    if (is_core) {
        const Core core = core_of(k.param("core"));
        decay = core == Core::ScalarTied ? "DecayShape::kScalar" : "DecayShape::kChannel";
        erase = core == Core::ChannelOwn ? "Erase::kOwn" : "Erase::kTied";
    }
    Size size("anyx16");
    if (!k.param("size").empty() && k.param("size") != "any") size = Size(k.param("size"));
    // Run-time V is a multiple of the row's panel; a step of fixed size has no need of one.
    KernelRow r{};
    r.family = k.family == "core_chunk" ? Family::kCoreChunk : k.family == "core_block" ? Family::kCoreBlock
               : k.family == "core_pending" ? Family::kCorePending : Family::kStage;
    r.k = size.k;
    r.v = size.v;
    r.panel = is_core && !size.v ? size.v_unit : 0;
    configure(&r, config.values());
    std::ostringstream row;
    row << "    {\"" << k.name << "\", \"" << k.family << "\", \"" << t.name << "\", \"" << symbol << "\",\n     \"" << config.text()
        << "\",\n     \"" << k.arguments_of(configuration) << "\",\n     " << symbol << "_argv, " << target_index.at(k.target) << ", "
        << enum_value("Family", k.family) << ", Precision::" << (k.param("precision") == "low" ? "kLow" : "kF32") << ", " << decay << ", "
        << erase << ", " << enum_value("Layout", k.param("layout").empty() ? "kfirst" : k.param("layout")) << ", "
        << enum_value("StageVariant", k.param("variant")) << ", " << enum_value("Form", k.param("form")) << ", "
        << enum_value("MapKind", k.param("kind")) << ", " << enum_value("Type", k.param("dtype")) << ", "
        << enum_value("Type", k.param("z_dtype")) << ", " << (k.param("width").empty() || k.param("width") == "any" ? "0" : k.param("width")) << ",\n     " << size.k << ", " << size.v
        << ", " << r.panel << ", " << r.chunk << ", " << r.rows << ", " << r.cols << ", " << r.fetch_lines << ", " << r.fetch_slots
        << ",\n     {" << r.run.time_block << ", " << r.run.task_grain << ", " << r.run.short_steps << ", " << r.run.tail_steps << ", "
        << r.run.v_slice_min << ", " << r.run.fetch_ahead << "}},\n";
    return row.str();
}

void write_table(const List &list, const Options &options) {
    auto wanted = [&](const TargetSpec &t) {
        return t.machine == options.machine && (options.targets.empty() || ("," + options.targets + ",").find("," + t.name + ",") != string::npos);
    };
    std::map<int, int> target_index;
    std::ostringstream declarations, rows, targets, choices;
    for (size_t i = 0; i < list.targets.size(); i++) {
        const TargetSpec &t = list.targets[i];
        if (!wanted(t)) continue;
        const int index = static_cast<int>(target_index.size());
        target_index[static_cast<int>(i)] = index;
        targets << "    {\"" << t.name << "\", \"" << t.features << "\", " << (t.schedule == "reference") << "},\n";
    }
    int count = 0, choice_count = 0;
    std::set<string> declared;
    for (const KernelSpec &k : list.kernels) {
        if (!target_index.count(k.target)) continue;
        for (const Use &use : k.selection.uses) choices << choice_row(use, count);
        choice_count += static_cast<int>(k.selection.uses.size());
        for (const Configuration &c : k.selection.configurations) {
            if (declared.insert(k.symbol_of(c)).second) declarations << "int " << k.symbol_of(c) << "_argv(void **);\n";
            rows << table_row(list, k, c, target_index);
            count++;
        }
    }
    if (choice_count == 0) choices << "    {},\n";  // an array must have an element
    std::ofstream out(options.output);
    out << "// Written by gdn.generator --table from generators/kernels.json.\n#include \"kernel_table.h\"\n\nextern \"C\" {\n" << declarations.str()
        << "}\n\nnamespace gdn {\n\nextern const TargetRow kTargetRows[] = {\n" << targets.str() << "};\nextern const int32_t kTargetRowCount = "
        << target_index.size() << ";\n\nextern const KernelRow kKernelRows[] = {\n" << rows.str()
        << "};\nextern const int32_t kKernelRowCount = " << count << ";\n\nextern const ChoiceRow kChoiceRows[] = {\n" << choices.str()
        << "};\nextern const int32_t kChoiceRowCount = " << choice_count << ";\n\n}  // namespace gdn\n";
    out.close();
    if (!out) throw std::runtime_error("cannot write " + options.output);
}

int list_main(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const string arg = argv[i];
        string *value = arg == "--kernels" ? &options.kernels : arg == "--tuned" ? &options.tuned : arg == "--table" ? &options.machine
                        : arg == "-o" ? &options.output : arg == "--targets" ? &options.targets : arg == "--select" ? &options.select : nullptr;
        if (value && i + 1 < argc) {
            *value = argv[++i];
        } else if (arg == "--list") {
            options.list = true;
        } else if (arg != "--json") {
            throw std::runtime_error("unknown argument " + arg);
        }
    }
    const List list = read_list(options);
    if (options.list) {
        print_list(list);
    } else {
        write_table(list, options);
    }
    return 0;
}

// Halide only warns of a schedule that is bound to fail when it runs, and of 16-bit floats that it emulates; kernels without asserts would
// return wrong results or crawl. Both are errors here.
class StrictReporter : public Halide::CompileTimeErrorReporter {
public:
    void warning(const char *message) override {
        const string text = message;
        if (text.find("guaranteed to fail") != string::npos || text.find("is emulated") != string::npos) error(message);
        std::fprintf(stderr, "%s", message);
    }
    [[noreturn]] void error(const char *message) override {
        std::fprintf(stderr, "gdn.generator: %s", message);
        std::exit(1);
    }
};

}  // namespace
}  // namespace gdn

int main(int argc, char **argv) {
    static gdn::StrictReporter reporter;
    Halide::set_custom_compile_time_error_reporter(&reporter);
    const string first = argc > 1 ? argv[1] : "";
    try {
        if (first == "--version") {
            std::printf("gdn.generator of sources " GDN_GENERATOR_SOURCES ", Halide %d.%d.%d\n", HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR, HALIDE_VERSION_PATCH);
            return 0;
        }
        if (first != "--list" && first != "--table") return Halide::Internal::generate_filter_main(argc, argv);
        return gdn::list_main(argc, argv);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "gdn.generator: %s\n", e.what());
        return 1;
    }
}
