// gdn tune merge: journals of one device, shards of one search among them, as one journal.
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "autotune/db/merge.h"
#include "console.h"
#include "tune.h"

namespace gdn::cli {

namespace {

struct Merge {
    std::string out;
    std::vector<std::string> in;
    bool json = false;

    void run() const {
        tune::merge_journals(in, out);
        const tune::Journal journal = tune::Journal::open(out, true);
        nlohmann::ordered_json summary = {{"journal", out}, {"tasks", nlohmann::ordered_json::array()}};
        size_t open = 0;
        for (const auto &[id, task] : journal.tasks()) {
            const bool finished = journal.finished(id).done;
            open += !finished;
            const size_t trials = journal.trials(id, "search").size();
            summary["tasks"].push_back({{"task", task.name()}, {"trials", trials}, {"finished", finished}});
            if (!json) std::printf("%-60s %6zu trials  %s\n", task.name().c_str(), trials, finished ? "finished" : "final phase open");
        }
        if (json) {
            std::printf("%s\n", summary.dump(2).c_str());
        } else if (open) {
            std::printf("%zu of %zu tasks want their final phase: gdn tune run --finish with --journal %s and the options of the shards, "
                        "without --shard\n",
                open, summary["tasks"].size(), out.c_str());
        }
    }
};

}  // namespace

void add_tune_merge(CLI::App &tune) {
    CLI::App &merge = *tune.add_subcommand("merge", "Join journals of one device, shards of one search among them");
    auto options = std::make_shared<Merge>();
    merge.add_option("out", options->out, "The new journal")->required();
    merge.add_option("in", options->in, "Journals: every shard of a search, finished")->required();
    merge.add_flag("--json", options->json, "Print one JSON object");
    merge.footer(
        "Example:\n"
        "  for i in 0 1 2 3; do gdn tune run core_chunk_* --search exhaustive --shard $i/4 --journal $i.db; done   (each on its machine)\n"
        "  gdn tune merge all.db 0.db 1.db 2.db 3.db\n"
        "  gdn tune run core_chunk_* --search exhaustive --journal all.db --finish                                 (the final phase)");
    merge.callback([options] { options->run(); });
}

}  // namespace gdn::cli
