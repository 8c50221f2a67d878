// gdn tune run, list and replay, on real candidates. Nothing is asserted about times.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/db/journal.h"
#include "program.h"
#include "support/folder.h"

namespace gdn_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class TuneRun : public ::testing::Test {
protected:
    std::string tune(const std::string &kernel, const std::string &more) const {
        return "tune run " + kernel + " --target x86_avx2 --force --cache " + folder_.path() + "/cache --journal " + journal() + " " + more;
    }
    /// Few points, a small shape: seconds, not minutes.
    std::string small(const std::string &more) const { return tune("gated_norm_f32_f32", "--rounds 3 " + more); }
    std::string journal() const { return folder_.path() + "/tune.db"; }

    const Folder folder_;
};

TEST_F(TuneRun, FindsAWinnerAndKeepsTheJournal) {
    const Outcome outcome = gdn(small("--search exhaustive --json"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out)["tasks"].at(0);
    EXPECT_EQ(result["result"]["evaluations"], result["valid_points"]);
    EXPECT_GT(result["result"]["cost"], 0);
    EXPECT_TRUE(fs::exists(journal()));

    const Outcome again = gdn(small("--search exhaustive"));
    EXPECT_EQ(again.code, 2);
    EXPECT_THAT(again.err, HasSubstr("--resume"));
    const Outcome resumed = gdn(small("--search exhaustive --resume --json"));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(json::parse(resumed.out)["tasks"].at(0)["result"]["config"], result["result"]["config"]);

    EXPECT_TRUE(json::parse(resumed.out)["tasks"].at(0)["result"]["finished_before"]);
    EXPECT_THAT(gdn(small("--search exhaustive --resume --time 1m")).out, HasSubstr("1 task finished before and left alone"));

    const Outcome other = gdn(small("--search random --seed 3 --resume"));
    EXPECT_NE(other.code, 0) << "another search than the journal's";
    EXPECT_THAT(other.err, HasSubstr("search"));
}

TEST_F(TuneRun, TimesTheConfigurationThatIsGiven) {
    const Outcome outcome = gdn(small("--config sums:1 --json"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["tasks"].at(0)["result"]["evaluations"], 1);
    const auto tried = [&](const std::string &phase) {
        std::vector<std::string> configs;
        for (const gdn::tune::Trial &trial : gdn::tune::Journal::open(journal(), true).trials(1, phase))
            configs.push_back(gdn::tune::text_of(trial.config));
        return configs;
    };
    EXPECT_THAT(tried("search"), ElementsAre("abreast:2,sums:1"));
    EXPECT_THAT(tried("final"), ElementsAre("abreast:2,sums:2", "abreast:2,sums:1"));
}

TEST_F(TuneRun, InterruptKeepsTheJournal) {
    Invocation run_long;
    run_long.arguments = words(tune("core_step_channel_tied_128x128_kfirst", "--batch 1 --rounds 1000"));
    run_long.interrupt_after = 4;
    const Outcome outcome = run(run_long);
    EXPECT_EQ(outcome.code, 5) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("--resume"));
    ASSERT_TRUE(fs::exists(journal()));
    // Its measurements were of a thousand rounds: others do not mix with them.
    const Outcome other = gdn(tune("core_step_channel_tied_128x128_kfirst", "--batch 1 --rounds 3 --resume"));
    EXPECT_EQ(other.code, 1) << other.err;
    EXPECT_THAT(other.err, HasSubstr("rounds: 3 here, 1000 there"));
}

TEST_F(TuneRun, AnOptimiserOutsideIsServedAndItsWorkCanBeExported) {
    std::ofstream(folder_.file("lines")) << R"({"evaluate": [{"abreast": 1}]}
{"evaluate": [{"abreast": 3}]}
{"stop": true}
)";
    Invocation what;
    what.arguments = words(small("--ask-tell"));
    what.stdin_file = folder_.file("lines");
    const Outcome outcome = run(what);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::istringstream answers(outcome.out);
    std::string first, second, third;
    std::getline(answers, first), std::getline(answers, second), std::getline(answers, third);
    EXPECT_EQ(json::parse(first)["results"].at(0)["status"], "ok") << first;
    EXPECT_THAT(json::parse(second)["error"].get<std::string>(), HasSubstr("abreast"));
    EXPECT_EQ(json::parse(third)["stopped"], true);
    const Outcome exported = gdn("tune export " + journal() + " --stdout");
    ASSERT_EQ(exported.code, 0) << exported.err;
    EXPECT_TRUE(json::parse(exported.out)["kernels"].contains("gated_norm_f32_f32")) << exported.out;
}

TEST_F(TuneRun, BadInputSaysWhatAndChangesNothing) {
    const auto refused = [&](const std::string &arguments, int code, const std::string &text) {
        const Outcome outcome = gdn(arguments + " --force --journal " + journal() + " --cache " + folder_.path() + "/cache");
        EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
        EXPECT_THAT(outcome.err, HasSubstr(text)) << arguments;
        EXPECT_FALSE(fs::exists(journal())) << arguments;
    };
    refused("tune run core_chunk_channel_tied_128x12 --target x86_avx2", 2, "core_chunk_channel_tied_128x128");
    refused("tune run gated_norm_f32_f32 --target x86_avx1024", 3, "x86_avx1024");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --values sums=3", 2, "3 is none of them");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --values some=3", 2, "some");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --values sums=x", 2, "is no whole number");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --config nosuch:5", 2, "has no parameter nosuch");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --config sums:1 --config sums:3", 2, "3 is none of them");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --config sums:1 --parameters abreast", 2, "1 is none of them");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --config sums:4", 2, "breaks the constraint");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --config sums", 2, "name:value");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --class sometimes", 2, "sometimes");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --time soon", 2, "soon");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --shard 4/4", 2, "4/4");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --shard 0/4x", 2, "0/4x");
    refused("tune run core_chunk_channel_tied_128x128 --target x86_avx2 --shape T=4", 2, "8 tokens");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --shape T=banana", 2, "banana");
    refused("tune run gated_norm_f32_f32 --target x86_avx2 --search clairvoyant", 2, "clairvoyant");
    refused("tune run map_copy_f32 --target x86_avx2", 2, "map_copy_f32");
    refused("tune run", 2, "--all");

    const Outcome nowhere = gdn("tune run gated_norm_f32_f32 --target x86_avx2 --force --journal /nowhere/at/all/tune.db");
    EXPECT_EQ(nowhere.code, 1);
    EXPECT_THAT(nowhere.err, HasSubstr("/nowhere/at/all"));
    const Outcome cache = gdn("tune run gated_norm_f32_f32 --target x86_avx2 --force --cache /proc/none --journal " + journal());
    EXPECT_EQ(cache.code, 1);
    EXPECT_THAT(cache.err, HasSubstr("/proc/none"));
    EXPECT_FALSE(fs::exists(journal()));
    const Outcome generator =
        gdn("tune run gated_norm_f32_f32 --target x86_avx2 --force --generator /nowhere/gdn.generator --journal " + journal());
    EXPECT_EQ(generator.code, 2);
    EXPECT_THAT(generator.err, HasSubstr("/nowhere/gdn.generator"));
}

TEST_F(TuneRun, ABrokenDefaultFailsItsTaskAlone) {
    const std::string generator = folder_.file("generator");
    std::ofstream(generator) << "#!/bin/sh\ncase \"$*\" in *z_dtype=bf16*) echo no such luck; exit 3;; esac\nexec '"
                             << (fs::path(GDN_PROGRAM).parent_path() / "gdn.generator").string() << "' \"$@\"\n";
    fs::permissions(generator, fs::perms::owner_all);
    const std::string both = tune("gated_norm_bf16_*", "--rounds 3 --search exhaustive --generator " + generator);
    const Outcome outcome = gdn(both + " --json");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("of 2 tasks 1 failed"));
    const json tasks = json::parse(outcome.out)["tasks"];
    ASSERT_EQ(tasks.size(), 2u);
    for (const json &task : tasks) {
        const bool broken = task["kernel"] == "gated_norm_bf16_bf16";
        EXPECT_EQ(task["result"]["failed"], broken) << task;
        EXPECT_EQ(task["result"]["evaluations"], broken ? 0 : 4) << task;
        EXPECT_EQ(task["result"]["why"].get<std::string>().find("no such luck") != std::string::npos, broken) << task;
    }
    const Outcome again = gdn(both + " --resume");
    EXPECT_EQ(again.code, 1);
    EXPECT_THAT(again.out, HasSubstr("failed, see below"));
    EXPECT_THAT(again.out, HasSubstr("no such luck"));
}

TEST_F(TuneRun, DryRunPrintsThePlan) {
    const Outcome outcome = gdn("tune run core_chunk_channel_tied_128x128 --target x86_avx2 --dry-run --journal " + journal());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("valid points"));
    EXPECT_FALSE(fs::exists(journal()));
}

TEST_F(TuneRun, ShardsMergeToTheWhole) {
    const std::string base =
        "tune run gated_norm_f32_f32 --target x86_avx2 --force --rounds 3 --search exhaustive --cache " + folder_.path() + "/cache";
    const auto shard = [&](int i) { return folder_.path() + "/shard" + std::to_string(i) + ".db"; };
    ASSERT_EQ(gdn(base + " --shard 0/2 --journal " + shard(0)).code, 0);
    const std::string merge = "tune merge " + journal() + " " + shard(0);
    const Outcome missing = gdn(merge);
    EXPECT_EQ(missing.code, 1);
    EXPECT_THAT(missing.err, HasSubstr("shard 1"));
    EXPECT_FALSE(fs::exists(journal()));

    ASSERT_EQ(gdn(base + " --shard 1/2 --journal " + shard(1)).code, 0);
    const Outcome merged = gdn(merge + " " + shard(1) + " --json");
    ASSERT_EQ(merged.code, 0) << merged.err;
    const Outcome finished = gdn(base + " --finish --json --journal " + journal());
    ASSERT_EQ(finished.code, 0) << finished.err;
    const json result = json::parse(finished.out)["tasks"].at(0);
    EXPECT_EQ(json::parse(merged.out)["tasks"].at(0)["trials"], result["valid_points"]);
}

TEST_F(TuneRun, ReplayVerifiesOneConfiguration) {
    const Outcome outcome =
        gdn("tune replay gated_norm_f32_f32 --target x86_avx2 --config sums=1 --json --cache " + folder_.path() + "/cache");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json replay = json::parse(outcome.out)["replays"].at(0);
    EXPECT_EQ(replay["status"], "ok");
    EXPECT_LT(replay["verify_error"], 1e-5);
    EXPECT_THAT(replay["config"].get<std::string>(), HasSubstr("sums:1"));
}

}  // namespace
}  // namespace gdn_test
