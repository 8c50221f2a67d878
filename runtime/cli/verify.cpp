// gdn verify: every variant, dtype and target of this machine against the recurrence in double precision.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "command.h"
#include "console.h"
#include "machine.h"
#include "operator.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
    std::string target = "all", variant = "all", dtype = "all";
    bool json = false;
};

struct Form {
    const char *decay, *gate;
    bool l2norm;
};
constexpr Form kForms[] = {{"log", "value", false}, {"softplus", "logit", true}, {"linear", "value", false}, {"log", "value", true},
    {"lower_bound", "logit", true}, {"softplus", "logit", false}};

struct Case {
    Setup setup;
    Inputs inputs;
    std::string text() const {
        return setup.text() + format(", %lld tokens, %s", static_cast<long long>(setup.tokens), inputs_name(inputs));
    }
};

/// K = V = 128 with every kind of inputs, then the other sizes, with forms, lengths, layouts and head counts taken in turn.
std::vector<Case> cases_of(const std::string &variant, const std::string &dtype) {
    const std::pair<int64_t, int64_t> kSizes[] = {
        {64, 64}, {256, 256}, {96, 192}, {192, 192}, {128, 256}, {48, 80}, {8, 24}, {1, 1}, {100, 36}};
    const int64_t kTokens[] = {37, 8, 1, 67, 16, 2, 23, 5, 9, 64, 3};
    std::vector<Case> cases;
    const auto add = [&](int64_t K, int64_t V, Inputs inputs) {
        const size_t i = cases.size();
        Case c;
        c.inputs = inputs;
        c.setup.variant = variant;
        c.setup.dtype = dtype;
        c.setup.dk = K;
        c.setup.dv = variant == "fg2" ? K : V;
        const Form &form = kForms[i % std::size(kForms)];
        c.setup.decay = form.decay;
        c.setup.gate = form.gate;
        c.setup.l2norm = form.l2norm;
        c.setup.tokens = kTokens[i % std::size(kTokens)];
        c.setup.heads = 2;
        c.setup.key_heads = i % 3 == 1 ? 1 : 0;
        c.setup.v_first = i % 4 == 3;
        cases.push_back(c);
    };
    for (int round = 0; round < 2; round++) {
        // The second round meets every kind of inputs with another form and length.
        for (Inputs inputs : kAllInputs) add(128, 128, inputs);
        if (round == 0) add(16, 32, Inputs::kModerate);
    }
    for (auto [K, V] : kSizes) add(K, V, kAllInputs[cases.size() % std::size(kAllInputs)]);
    return cases;
}

/// Tokens [from, to) of every token tensor.
gdn_args tokens_of(const gdn_args &args, int64_t from, int64_t to) {
    gdn_args part = args;
    for (gdn_tensor *x : {&part.q, &part.k, &part.v, &part.g, &part.beta, &part.b, &part.w, &part.beta_k, &part.beta_v, &part.o}) {
        if (!x->data) continue;
        x->data = static_cast<char *>(x->data) + from * x->strides[1] * (x->dtype == GDN_DTYPE_F32 ? 4 : 2);
        x->shape[1] = to - from;
    }
    if (from > 0) part.initial_state = part.final_state;
    return part;
}

/// Worst errors of one variant, dtype, target and precision.
struct Row {
    std::string variant, dtype, target, precision;
    Bounds bound;
    Distance worst;
    std::string worst_case, reason;
    double weak_decay = 0, parallel_keys = 0;  // low precision: reported, not bounded
    int cases = 0, unsupported = 0;
    bool ok = true;

    ordered_json json() const {
        ordered_json json = {{"variant", variant}, {"dtype", dtype}, {"target", target}, {"precision", precision}, {"cases", cases}};
        json["error"] = worst.o.rms;
        json["bound"] = bound.o;
        json["max_error"] = worst.o.max;
        json["max_bound"] = gdn_test::kMaxOverRms * bound.o;
        json["state_error"] = worst.state.rms;
        json["state_bound"] = bound.state;
        json["state_max_error"] = worst.state.max;
        json["worst_case"] = worst_case;
        if (precision == "low") {
            json["weak_decay_error"] = weak_decay;
            json["parallel_keys_error"] = parallel_keys;
        }
        if (unsupported) {
            json["unsupported"] = unsupported;
            json["unsupported_reason"] = reason;
        }
        json["ok"] = ok;
        return json;
    }
};

/// Every way through the library that must give the same result.
void run_case(const Case &c, Problem &problem, const std::vector<gdn_reference::Result> &expected, const Context &context, Row &row) {
    gdn_args args = problem.args;
    args.precision = row.precision == "low" ? GDN_PRECISION_LOW : GDN_PRECISION_F32;
    const gdn_status status = gdn_supports(context.get(), &args);
    if (status == GDN_STATUS_UNSUPPORTED) {
        row.unsupported++;
        row.reason = gdn_last_error();
        return;
    }
    check(status, c.text().c_str());
    const Buffer memory = workspace(context, args);
    const int64_t T = c.setup.tokens;
    const auto compare = [&](const char *way) {
        Distance distance;
        for (int64_t hv = 0; hv < c.setup.heads; hv++) distance.worst(problem.distance(expected[static_cast<size_t>(hv)], 0, hv, T));
        row.cases++;
        const bool low = row.precision == "low";
        if (low && c.inputs == Inputs::kWeakDecay) {
            row.weak_decay = std::max(row.weak_decay, distance.rms());
        } else if (low && c.inputs == Inputs::kParallelKeys) {
            row.parallel_keys = std::max(row.parallel_keys, distance.rms());
        } else {
            if (row.worst_case.empty() || distance.o.rms > row.worst.o.rms) row.worst_case = c.text() + ", " + way;
            row.worst.worst(distance);
            row.ok &= row.bound.hold(distance);
        }
        problem.poison();
    };
    const auto forward = [&](const gdn_args &part) {
        check(gdn_forward(context.get(), &part, memory.data(), memory.size()), c.text().c_str());
    };

    problem.poison();
    forward(args);
    compare("whole");
    if (T > 1) {
        const int64_t cut = 1 + T / 3;
        forward(tokens_of(args, 0, cut));
        forward(tokens_of(args, cut, T));
        compare("split");
    }
    if (T <= 16) {
        for (int64_t t = 0; t < T; t++) {
            const gdn_args part = tokens_of(args, t, t + 1);
            check(gdn_step(context.get(), &part, memory.data(), memory.size()), c.text().c_str());
        }
        compare("steps");
    }
}

std::vector<std::string> targets_of(const Options &options) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < gdn_target_count(); i++) {
        gdn_target_info info;
        check(gdn_target_get(i, &info), "target list");
        const bool wanted =
            options.target == "all" || options.target == info.name || (options.target == "auto" && names.empty());  // best first
        if (info.runs_here && wanted) names.push_back(info.name);
    }
    if (options.target != "all" && options.target != "auto" && names.empty())
        Context(options.target, 1);  // throws with the library's reason
    if (names.empty()) throw Failure(kExitNoTarget, "no target of this library runs here; `gdn info` lists them");
    return names;
}

std::string number(double x) { return format("%.1e", x); }

void print_table(const std::vector<Row> &rows, const std::vector<std::string> &targets) {
    const Style &s = style();
    for (const char *precision : {"f32", "low"}) {
        const auto any = std::find_if(rows.begin(), rows.end(), [&](const Row &row) { return row.precision == precision; });
        if (any == rows.end()) continue;
        std::printf("%sWorst relative error against double precision, %s arithmetic%s\n%-17s", s.bold, precision, s.off, "");
        for (const std::string &target : targets) std::printf(" %-15s", target.c_str());
        const Row *line = nullptr;  // one line a variant and dtype; rows come in that order
        for (const Row &row : rows) {
            if (row.precision != precision) continue;
            if (!line || row.variant != line->variant || row.dtype != line->dtype) {
                std::printf("\n%-11s %-5s", row.variant.c_str(), row.dtype.c_str());
                size_t column = 0;
                for (const Row &cell : rows) {
                    if (cell.precision != precision || cell.variant != row.variant || cell.dtype != row.dtype) continue;
                    while (targets[column] != cell.target) {
                        std::printf(" %-15s", "");
                        column++;
                    }
                    std::printf(" %s%-15s%s",
                        !cell.cases ? s.dim
                        : cell.ok   ? s.good
                                    : s.bad,
                        cell.cases ? number(cell.worst.o.rms).c_str() : "-", s.off);
                    column++;
                }
            }
            line = &row;
        }
        std::printf("\n");
    }
    int cases = 0;
    bool all = true;
    for (const Row &row : rows) {
        cases += row.cases;
        all &= row.ok;
        if (row.ok) continue;
        std::printf("%sout of bounds%s  %s %s %s %s: o %s of %s, state %s of %s, largest element %s of %s\n  in %s\n", s.bad, s.off,
            row.variant.c_str(), row.dtype.c_str(), row.target.c_str(), row.precision.c_str(), number(row.worst.o.rms).c_str(),
            number(row.bound.o).c_str(), number(row.worst.state.rms).c_str(), number(row.bound.state).c_str(),
            number(row.worst.o.max).c_str(), number(gdn_test::kMaxOverRms * row.bound.o).c_str(), row.worst_case.c_str());
    }
    for (const Row &row : rows) {
        if (row.unsupported && row.cases)
            std::printf("%d cases of %s %s on %s are not supported: %s\n", row.unsupported, row.variant.c_str(), row.dtype.c_str(),
                row.target.c_str(), row.reason.c_str());
        if (row.precision == "low" && row.cases) {
            std::printf("%slow precision, %s %s: weak decay %s, parallel keys %s%s\n", s.dim, row.variant.c_str(), row.dtype.c_str(),
                number(row.weak_decay).c_str(), number(row.parallel_keys).c_str(), s.off);
        }
    }
    std::printf("%d comparisons: %s%s%s (bounds: f32 %s, 16-bit storage %s)\n", cases, all ? s.good : s.bad,
        all ? "all within bounds" : "out of bounds", s.off, number(gdn_test::kBoundF32).c_str(), number(gdn_test::kBound16).c_str());
}

void run(const Options &options) {
    const std::vector<std::string> targets = targets_of(options);
    std::vector<std::string> variants = variant_names(), dtypes = dtype_names();
    if (options.variant != "all") variants = {options.variant};
    if (options.dtype != "all") dtypes = {options.dtype};
    std::vector<std::unique_ptr<Context>> contexts;
    for (const std::string &target : targets) contexts.push_back(std::make_unique<Context>(target, 1, GDN_CHECK_VALUES));

    std::vector<Row> rows;
    const double start = now();
    {
        Progress progress("verifying");
        const size_t total = variants.size() * dtypes.size() * cases_of("kda", "f32").size();
        size_t done = 0;
        for (const std::string &variant : variants) {
            for (const std::string &dtype : dtypes) {
                const size_t first = rows.size();
                for (const std::string &target : targets) {
                    for (const char *precision : {"f32", "low"}) {
                        Row row;
                        row.variant = variant;
                        row.dtype = dtype;
                        row.target = target;
                        row.precision = precision;
                        Setup setup;
                        setup.dtype = dtype;
                        setup.precision = precision;
                        row.bound = bounds(setup);
                        rows.push_back(row);
                    }
                }
                for (const Case &c : cases_of(variant, dtype)) {
                    progress.update(static_cast<double>(done++), static_cast<double>(total));
                    Problem problem(c.setup, c.inputs, 1 + done);
                    std::vector<gdn_reference::Result> expected;
                    for (int64_t hv = 0; hv < c.setup.heads; hv++)
                        expected.push_back(gdn_reference::run(problem.operands(0, hv, c.setup.tokens)));
                    for (size_t i = first; i < rows.size(); i++) run_case(c, problem, expected, *contexts[(i - first) / 2], rows[i]);
                }
            }
        }
    }
    // A precision that a target does not have is no row of its result.
    rows.erase(std::remove_if(rows.begin(), rows.end(), [](const Row &row) { return row.precision == "low" && !row.cases; }), rows.end());
    const bool ok = std::all_of(rows.begin(), rows.end(), [](const Row &row) { return row.ok; });
    if (options.json) {
        ordered_json json = {{"ok", ok}, {"version", gdn_version()}, {"cpu", cpu_name()}, {"date", date()}, {"seconds", now() - start},
            {"results", ordered_json::array()}};
        for (const Row &row : rows) json["results"].push_back(row.json());
        std::printf("%s\n", json.dump(2).c_str());
    } else {
        print_table(rows, targets);
    }
    if (!ok) throw Failure(kExitVerification, "verification failed");
}

}  // namespace

void add_verify(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("verify", "Every variant, dtype and target of this machine against double precision");
    const auto with_all = [](std::vector<std::string> names) {
        names.push_back("all");
        return CLI::IsMember(names);
    };
    command.add_option("--target", options->target, "Only this target of `gdn info`")->capture_default_str();
    command.add_option("--variant", options->variant, "Only this variant")->check(with_all(variant_names()))->capture_default_str();
    command.add_option("--dtype", options->dtype, "Only this dtype")->check(with_all(dtype_names()))->capture_default_str();
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("The error is the RMS of the difference over the RMS of the reference, per sequence and head and again over the last "
                   "chunk; the worst counts,\n"
                   "and no element may be off by more than 20 bounds. Sizes, lengths, splits, steps, units of the gates and kinds of "
                   "inputs are mixed.\n"
                   "Exits with 4 if a result is out of bounds.\n\n"
                   "Examples:\n  gdn verify\n  gdn verify --target x86_avx2 --json");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
