#include "measure.h"

#include <algorithm>
#include <cmath>

#include "console.h"
#include "machine.h"

namespace gdn::cli {

Rounds measure(const std::vector<Contender *> &contenders, const std::function<double()> &peak, int rounds, double sample_seconds,
    const std::string &title) {
    Progress progress(title);
    const auto run = [](Contender &contender) {
        const double start = now(), cpu = process_cpu_time();
        for (int64_t i = 0; i < contender.calls; i++) contender.call();
        const double per_call = 1e9 / static_cast<double>(contender.calls);
        return std::pair{(now() - start) * per_call, (process_cpu_time() - cpu) * per_call};
    };
    for (Contender *contender : contenders) {
        for (int64_t i = 0; i < contender->warm_up; i++) {
            check_interrupt();
            contender->call();
        }
        // Grow until a sample is long enough for the clock; the growth is part of the warm-up.
        for (;;) {
            progress.update(0, rounds);
            const double seconds = run(*contender).first * static_cast<double>(contender->calls) * 1e-9;
            if (seconds >= sample_seconds) break;
            const double factor = std::clamp(1.2 * sample_seconds / std::max(seconds, 1e-9), 2.0, 100.0);
            contender->calls = static_cast<int64_t>(std::ceil(static_cast<double>(contender->calls) * factor));
        }
    }

    Rounds result;
    double before = peak();
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < contenders.size(); i++) {
            // Every second round runs backwards: nobody always comes after the same neighbour.
            Contender &contender = *contenders[round % 2 ? contenders.size() - 1 - i : i];
            const auto [ns, cpu] = run(contender);
            contender.ns.push_back(ns);
            contender.cpu.push_back(cpu);
            progress.update(round + static_cast<double>(i + 1) / static_cast<double>(contenders.size()), rounds);
        }
        const double after = peak();
        result.peak.push_back(std::max(before, after));
        before = after;
    }
    return result;
}

}  // namespace gdn::cli
