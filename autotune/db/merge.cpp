#include "autotune/db/merge.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include <unistd.h>

namespace gdn::tune {

namespace fs = std::filesystem;

namespace {

struct Part {
    std::string path;
    const Journal *journal;
    int64_t id;
    Task task;
};

std::string shard_of(const Task &task) { return "shard " + std::to_string(task.shard) + "/" + std::to_string(task.shards); }

/// The parts of one task, in the order of their shards; throws unless they are all there.
void require_whole(std::vector<Part> &parts) {
    const Part &first = parts[0];
    for (const Part &part : parts) {
        std::string difference = first.task.difference(part.task);
        if (difference.empty() && first.task.shards != part.task.shards) {
            difference = "shards: " + std::to_string(first.task.shards) + " here, " + std::to_string(part.task.shards) + " there";
        }
        if (!difference.empty())
            throw Error(first.path + " and " + part.path + " hold different searches of " + first.task.name() + ": " + difference);
    }
    std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) { return a.task.shard < b.task.shard; });
    for (size_t i = 0; i + 1 < parts.size(); i++) {
        if (parts[i].task.shard == parts[i + 1].task.shard) {
            throw Error(
                parts[i].path + " and " + parts[i + 1].path + " both hold " + shard_of(parts[i].task) + " of " + parts[i].task.name());
        }
    }
    Task missing = parts[0].task;
    for (missing.shard = 0; missing.shard < missing.shards; missing.shard++) {
        const auto it = std::find_if(parts.begin(), parts.end(), [&](const Part &part) { return part.task.shard == missing.shard; });
        if (it == parts.end()) throw Error(shard_of(missing) + " of " + missing.name() + " is missing: measure it and merge again");
        if (missing.shards > 1 && !it->journal->finished(it->id).done) {
            throw Error(
                shard_of(missing) + " of " + missing.name() + " in " + it->path + " was not finished: go on with it and merge again");
        }
    }
}

void add_whole(Journal &out, std::vector<Part> &parts) {
    Task task = parts[0].task;
    const bool dealt = task.shards > 1;
    task.shard = 0;
    task.shards = 1;
    const int64_t id = out.task(task);
    for (const Part &part : parts) {
        out.add(id, "search", part.journal->trials(part.id, "search"));
        if (dealt) continue;
        out.add(id, "final", part.journal->trials(part.id, "final"));
        if (const Journal::Finish finish = part.journal->finished(part.id); finish.done) out.finish(id, finish.winner, finish.why);
    }
}

}  // namespace

void merge_journals(const std::vector<std::string> &paths, const std::string &out) {
    if (paths.empty()) throw Error("there is nothing to merge");
    if (fs::exists(out)) throw Error("the journal " + out + " exists: choose another name");
    std::vector<Journal> journals;
    for (const std::string &path : paths) journals.push_back(Journal::open(path, true));
    RunInfo info = journals[0].info();
    std::map<std::tuple<std::string, std::string, LengthClass>, std::vector<Part>> tasks;
    for (size_t i = 0; i < paths.size(); i++) {
        const RunInfo &other = journals[i].info();
        std::string difference = info.device.difference(other.device);
        if (difference.empty() && info.generator_hash != other.generator_hash) {
            difference = "generator hash: " + info.generator_hash + " here, " + other.generator_hash + " there";
        }
        if (!difference.empty()) throw Error(paths[0] + " and " + paths[i] + " do not mix: " + difference);
        info.date = std::max(info.date, other.date);
        if (other.noisy && !info.noisy) info.doctor = other.doctor;
        info.noisy |= other.noisy;
        for (const auto &[id, task] : journals[i].tasks()) {
            tasks[{task.kernel, task.target, task.length_class}].push_back({paths[i], &journals[i], id, task});
        }
    }
    for (auto &[name, parts] : tasks) require_whole(parts);

    const std::string beside = out + ".part" + std::to_string(getpid());
    const auto discard = [&] {
        for (const char *end : {"", "-wal", "-shm"}) unlink((beside + end).c_str());
    };
    discard();
    try {
        {
            Journal merged = Journal::create(beside, info);
            for (auto &[name, parts] : tasks) add_whole(merged, parts);
        }
        // Closing it has moved everything from the log into the file, unless the disk was full.
        if (fs::exists(beside + "-wal")) throw Error("the journal " + out + " cannot be written: the disk is full");
        fs::rename(beside, out);
    } catch (...) {
        discard();
        throw;
    }
}

}  // namespace gdn::tune
