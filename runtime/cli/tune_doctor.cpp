// gdn doctor: whether this machine is fit for measuring.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "autotune/doctor.h"
#include "console.h"
#include "tune.h"

namespace gdn::cli {
namespace {

void print(const tune::Checkup &checkup) {
    using Grade = tune::Finding::Grade;
    const Style &s = style();
    size_t width = 0;
    for (const tune::Finding &finding : checkup.findings) width = std::max(width, finding.what.size());
    for (const tune::Finding &finding : checkup.findings) {
        const char *const colour = finding.grade == Grade::kGood ? s.good : finding.grade == Grade::kUnfit ? s.bad : s.bold;
        std::printf("  %s%-5s%s  %-*s  %s\n", colour, name_of(finding.grade), s.off, static_cast<int>(width), finding.what.c_str(),
            finding.text.c_str());
        if (!finding.advice.empty())
            std::printf("  %5s  %*s  %s%s%s\n", "", static_cast<int>(width), "", s.dim, finding.advice.c_str(), s.off);
    }
}

void run(bool json) {
    const tune::Checkup checkup = tune::examine();
    if (json)
        std::printf("%s\n", checkup.json().c_str());
    else
        print(checkup);
    if (checkup.fit()) return;
    std::string why;
    for (const tune::Finding &finding : checkup.unfit()) why += (why.empty() ? "" : ", ") + finding.what;
    throw Failure(kExitFailure, "this machine is not fit for measuring: " + why);
}

}  // namespace

void add_doctor(CLI::App &app) {
    CLI::App &command = *app.add_subcommand("doctor", "Whether this machine is fit for measuring, and what would make it so");
    auto json = std::make_shared<bool>(false);
    command.add_flag("--json", *json, "Print one JSON object");
    command.footer("Exits with 1 where the machine is unfit; `gdn tune run --force` measures there all the same, and marks its results.\n\n"
                   "Examples:\n  gdn doctor\n  gdn doctor --json");
    command.callback([json] { run(*json); });
}

}  // namespace gdn::cli
