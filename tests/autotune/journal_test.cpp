// The journal: what goes in comes out to the last bit, what cannot be used is refused with a reason.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "synthetic.h"

namespace gdn::tune {
namespace {

using namespace synthetic;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

Trial trial(int cols, double cost) {
    Trial t;
    t.config = task().default_config;
    t.config["cols"] = cols;
    t.status = Status::kOk;
    t.ns = {{1.1, 2.2 / 3}, {1e6 + 1 / 7.0}};
    t.anchor = {{1.3, 0.1}, {1e6}};
    t.cost = {cost, cost - 1e-3 / 3, cost + 1e-3 / 7, cost, 1e-17, 3};
    t.verify_error = 3e-7 / 11;
    t.build_seconds = 1.7 / 3;
    t.object_hash = "00ff";
    return t;
}

// As another program would, the rows joined by ";".
std::string sql(const std::string &path, const std::string &text) {
    sqlite3 *db = nullptr;
    std::string rows, *out = &rows;
    EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    char *error = nullptr;
    const auto row = [](void *to, int n, char **values, char **) {
        for (int i = 0; i < n; i++)
            *static_cast<std::string *>(to) += std::string(values[i] ? values[i] : "NULL") + (i + 1 < n ? "|" : ";");
        return 0;
    };
    EXPECT_EQ(sqlite3_exec(db, text.c_str(), row, out, &error), SQLITE_OK) << (error ? error : "");
    sqlite3_free(error);
    sqlite3_close(db);
    return rows;
}

// What `call` returns when nobody in particular makes it: permissions do not bind root.
std::string as_nobody(const std::function<std::string()> &call) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
        std::string text = "cannot become nobody";
        if (geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0)) {
            try {
                text = call();
            } catch (const std::exception &error) {
                text = error.what();
            }
        }
        _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string text;
    char buffer[512];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return text;
}

TEST(Journal, GivesBackEveryBit) {
    const Folder folder;
    const std::string path = folder.file("a.db");
    Trial odd = trial(64, 1);
    odd.cost = {};
    odd.status = Status::kWrongResult;
    odd.error = "line 1\n\"quoted\" \xff ' and \xc3\xa9";
    odd.ns = {{}, {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(), 0.1 + 0.2}};
    odd.anchor = {};
    odd.verify_error = std::numeric_limits<double>::infinity();
    odd.abandoned = true;
    Task other = task("random", 0xfedcba9876543210u);
    other.kernel = "another";
    other.length_class = LengthClass::kShort;
    other.shard = 2;
    other.shards = 5;
    RunInfo info = run_info();
    info.noisy = true;
    int64_t id = 0;
    {
        Journal journal = Journal::create(path, info);
        id = journal.task(task());
        EXPECT_EQ(journal.task(task()), id);
        EXPECT_NE(journal.task(other), id);
        journal.add(id, "search", {trial(16, 1.5), odd});
        journal.add(id, "search", {trial(32, 0.9)});
        journal.add(id, "final", {trial(32, 0.8)});
        EXPECT_FALSE(journal.finished(id).done);
        journal.finish(id, trial(32, 0).config, "because");
    }
    for (const bool read_only : {false, true}) {
        Journal journal = Journal::open(path, read_only);
        EXPECT_EQ(journal.info().device.json(), info.device.json());
        EXPECT_EQ(journal.info().device.difference(info.device), "");
        EXPECT_EQ(journal.info().generator_hash, info.generator_hash);
        EXPECT_EQ(journal.info().halide_version, info.halide_version);
        EXPECT_EQ(journal.info().gdn_version, info.gdn_version);
        EXPECT_EQ(journal.info().date, info.date);
        EXPECT_EQ(journal.info().doctor, info.doctor);
        EXPECT_TRUE(journal.info().noisy);
        const auto tasks = journal.tasks();
        ASSERT_EQ(tasks.size(), 2u);
        EXPECT_EQ(tasks[0].first, id);
        EXPECT_EQ(tasks[0].second.difference(task()), "");
        EXPECT_EQ(tasks[1].second.difference(other), "");
        EXPECT_EQ(tasks[1].second.seed, other.seed);
        EXPECT_EQ(tasks[1].second.shard, 2);
        EXPECT_EQ(tasks[1].second.shards, 5);
        EXPECT_EQ(tasks[1].second.shapes, other.shapes);
        EXPECT_TRUE(same(journal.trials(id, "search"), {trial(16, 1.5), odd, trial(32, 0.9)}));
        EXPECT_TRUE(same(journal.trials(id, "final"), {trial(32, 0.8)}));
        EXPECT_TRUE(journal.finished(id).done);
        EXPECT_EQ(journal.finished(id).winner, trial(32, 0).config);
        EXPECT_EQ(journal.finished(id).why, "because");
    }
}

TEST(Journal, KeepsNaNAsNaN) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Trial t = trial(16, 1);
    t.verify_error = std::nan("");
    t.ns = {{std::nan(""), 1}};
    const int64_t id = journal.task(task());
    journal.add(id, "search", {t});
    EXPECT_TRUE(std::isnan(journal.trials(id, "search").at(0).verify_error));
    EXPECT_TRUE(std::isnan(journal.trials(id, "search").at(0).ns.at(0).at(0)));
}

TEST(Journal, ASecondTrialReplacesTheFirst) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    const int64_t id = journal.task(task());
    journal.add(id, "search", {trial(16, 1.5), trial(32, 1)});
    journal.add(id, "search", {trial(16, 1.25)});
    EXPECT_TRUE(same(journal.trials(id, "search"), {trial(32, 1), trial(16, 1.25)}));
}

TEST(Journal, FurtherSearchVoidsTheFinalPhase) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    const int64_t id = journal.task(task());
    journal.add(id, "search", {trial(16, 1.5)});
    journal.add(id, "final", {trial(16, 1.5)});
    journal.finish(id, trial(16, 0).config, "because");
    journal.add(id, "search", {});
    EXPECT_TRUE(journal.finished(id).done);
    journal.add(id, "search", {trial(32, 1)});
    EXPECT_FALSE(journal.finished(id).done);
    EXPECT_TRUE(journal.trials(id, "final").empty());
    EXPECT_EQ(journal.trials(id, "search").size(), 2u);
}

TEST(Journal, IsWrittenAsAWholeOrNotAtAll) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    const int64_t id = journal.task(task());
    journal.add(id, "search", {trial(16, 1)});
    EXPECT_NE(error_of([&] { journal.add(id, "middle", {trial(32, 1)}); }), "");
    EXPECT_NE(error_of([&] { journal.add(id + 1, "search", {trial(32, 1)}); }), "");
    EXPECT_TRUE(same(journal.trials(id, "search"), {trial(16, 1)}));
}

TEST(Journal, PeopleReadIt) {
    const Folder folder;
    const std::string path = folder.file("a.db");
    Journal journal = Journal::create(path, run_info());
    const int64_t id = journal.task(task());
    Trial fast = trial(48, 0.5), broken = trial(64, 0);
    fast.abandoned = true;
    broken.status = Status::kCrashed;
    broken.cost = {};
    journal.add(id, "search", {trial(16, 1.5), trial(32, 0.75), fast, broken});
    EXPECT_EQ(sql(path, "SELECT kernel, phase, config, cost, finished FROM best"),
        "core_synthetic_128x128|search|" + text_of(trial(32, 0).config) + "|0.75|0;");
    EXPECT_EQ(sql(path, "SELECT cost, low FROM trial WHERE status = 'crashed'"), "NULL|NULL;");
    journal.add(id, "final", {trial(32, 0.75), trial(16, 0.875)});
    journal.finish(id, trial(16, 0).config, "simpler");
    EXPECT_EQ(sql(path, "SELECT phase, config, cost, finished FROM best"), "final|" + text_of(trial(16, 0).config) + "|0.875|1;");
    EXPECT_EQ(sql(path, "SELECT json_extract(ns, '$[0][0]') FROM trial LIMIT 1"), "1.1;");
}

TEST(Journal, TheMarkOfANoisyMachineStays) {
    const Folder folder;
    Journal::create(folder.file("a.db"), run_info()).mark_noisy(R"({"findings": [1]})");
    const Journal journal = Journal::open(folder.file("a.db"), true);
    EXPECT_TRUE(journal.info().noisy);
    EXPECT_EQ(journal.info().doctor, R"({"findings": [1]})");
}

TEST(Journal, RefusesAnotherDeviceGeneratorAndSearch) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    EXPECT_EQ(error_of([&] { journal.require_same(run_info()); }), "");
    RunInfo other = run_info();
    other.device.name = "AMD EPYC 7B13";
    EXPECT_THAT(error_of([&] { journal.require_same(other); }), AllOf(HasSubstr("a.db"), HasSubstr("EPYC 9B14"), HasSubstr("EPYC 7B13")));
    other = run_info();
    other.generator_hash = "fedcba9876543210";
    EXPECT_THAT(error_of([&] { journal.require_same(other); }), AllOf(HasSubstr("0123456789abcdef"), HasSubstr("fedcba9876543210")));

    const int64_t id = journal.task(task());
    const auto refusal = [&](const std::function<void(Task &)> &change) {
        Task t = task();
        change(t);
        return error_of([&] { journal.task(t); });
    };
    EXPECT_THAT(refusal([](Task &t) {
        t.space = t.space.restricted({{"rows", {4, 8}}});
    }),
        AllOf(HasSubstr("rows:4,8 default 4 here"), HasSubstr("rows:2,4,8 default 4 there")));
    EXPECT_THAT(refusal([](Task &t) { t.space = Space(t.space.parameters(), {}); }), HasSubstr("constraints"));
    EXPECT_THAT(refusal([](Task &t) { t.rounds = 21; }), HasSubstr("rounds: 21 here, 7 there"));
    EXPECT_THAT(refusal([](Task &t) { t.shapes[1].T = 8192; }), AllOf(HasSubstr("shapes"), HasSubstr("T=8192"), HasSubstr("T=4096")));
    EXPECT_THAT(refusal([](Task &t) { t.default_config["rows"] = 8; }), HasSubstr("default configuration: "));
    EXPECT_THAT(refusal([](Task &t) { t.kernel_arguments += " x=1"; }), HasSubstr("x=1 here"));
    EXPECT_THAT(refusal([](Task &t) { t.searcher = "random"; }), HasSubstr("searcher: random here, exhaustive there"));
    EXPECT_THAT(refusal([](Task &t) { t.seed = 8; }), HasSubstr("seed: 8 here, 7 there"));
    EXPECT_THAT(refusal([](Task &t) { t.batch = 9; }), HasSubstr("batch: 9 here, 8 there"));
    EXPECT_THAT(refusal([](Task &t) { t.shards = 2; }), HasSubstr("shard: 0/2 here, 0/1 there"));
    EXPECT_EQ(journal.task(task()), id);
    EXPECT_EQ(journal.tasks().size(), 1u);
}

TEST(Journal, RefusesWhatIsNoJournal) {
    const Folder folder;
    const std::string path = folder.file("a.db");
    const auto refusal = [&](const std::string &name) {
        const std::string text = error_of([&] { Journal::open(folder.file(name), false); });
        EXPECT_EQ(error_of([&] { Journal::open(folder.file(name), true); }), text);
        EXPECT_THAT(text, HasSubstr(name));
        return text;
    };
    EXPECT_THAT(refusal("absent.db"), HasSubstr("No such file"));
    fs::create_directory(folder.file("folder.db"));
    EXPECT_THAT(refusal("folder.db"), HasSubstr("is no file"));
    std::ofstream(folder.file("text.db")) << std::string(5000, 'x');
    EXPECT_THAT(refusal("text.db"), HasSubstr("no SQLite file"));
    std::ofstream(folder.file("empty.db")).flush();
    EXPECT_THAT(refusal("empty.db"), HasSubstr("no journal"));
    sql(folder.file("foreign.db"), "CREATE TABLE trial (id INTEGER); PRAGMA user_version = 1");
    EXPECT_THAT(refusal("foreign.db"), HasSubstr("no journal"));
    Journal::create(folder.file("newer.db"), run_info());
    sql(folder.file("newer.db"), "PRAGMA user_version = 3");
    EXPECT_THAT(refusal("newer.db"), AllOf(HasSubstr("schema 2"), HasSubstr("newer")));
    Journal::create(folder.file("bare.db"), run_info());
    sql(folder.file("bare.db"), "DELETE FROM run");
    EXPECT_THAT(refusal("bare.db"), HasSubstr("no run"));

    Journal::create(path, run_info());
    EXPECT_THAT(error_of([&] { Journal::create(path, run_info()); }), AllOf(HasSubstr("a.db"), HasSubstr("exists")));
    EXPECT_NE(error_of([&] { Journal::create("", run_info()); }), "");
    EXPECT_THAT(error_of([&] { Journal::create(folder.file("no/such/a.db"), run_info()); }), HasSubstr("no/such"));
}

TEST(Journal, RefusesADamagedFile) {
    const Folder folder;
    const std::string whole = folder.file("whole.db"), path = folder.file("a.db");
    {
        Journal journal = Journal::create(whole, run_info());
        const int64_t id = journal.task(task());
        std::vector<Trial> trials;
        for (int i = 0; i < 200; i++) trials.push_back(trial(i, i));
        journal.add(id, "search", trials);
    }
    const auto size = fs::file_size(whole);
    ASSERT_GT(size, 15u * 4096);
    for (const uintmax_t length : {uintmax_t{10}, uintmax_t{50}, uintmax_t{99}, uintmax_t{100}, uintmax_t{512}, uintmax_t{4095},
             uintmax_t{4096}, uintmax_t{4097}, size / 2, size - 4096, size - 1}) {
        fs::copy_file(whole, path, fs::copy_options::overwrite_existing);
        fs::resize_file(path, length);
        for (const bool read_only : {false, true}) {
            EXPECT_NE(error_of([&] { Journal::open(path, read_only); }), "") << "truncated to " << length << " of " << size;
        }
        for (const char *end : {"-wal", "-shm"}) fs::remove(path + end);
    }
    fs::copy_file(whole, path, fs::copy_options::overwrite_existing);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(10 * 4096);
    file << std::string(4096, '\xff');
    file.close();
    EXPECT_THAT(error_of([&] { Journal::open(path, false); }), HasSubstr("corrupt"));
}

TEST(Journal, RefusesWhatAForeignHandWrote) {
    for (const char *change : {"UPDATE trial SET status = 'great'", "UPDATE trial SET ns = '[[1,'", R"(UPDATE trial SET ns = '[["a"]]')",
             "UPDATE trial SET config = 'rows'", "UPDATE task SET space = '{}'", "UPDATE task SET class = 'endless'",
             "UPDATE task SET shapes = 'T=many'", "UPDATE run SET device = '[]'"}) {
        const Folder folder;
        const std::string path = folder.file("a.db");
        {
            Journal journal = Journal::create(path, run_info());
            journal.add(journal.task(task()), "search", {trial(16, 1)});
        }
        sql(path, change);
        EXPECT_NE(error_of([&] {
            Journal journal = Journal::open(path, true);
            journal.trials(journal.tasks().at(0).first, "search");
        }),
            "")
            << change;
    }
}

TEST(Journal, SaysWhatMayNotBeWritten) {
    const Folder folder;
    const std::string path = folder.file("a.db");
    {
        Journal journal = Journal::create(path, run_info());
        journal.add(journal.task(task()), "search", {trial(16, 1)});
    }
    const auto write = [&] { return as_nobody([&] { return Journal::open(path, false).info().date; }); };
    const auto read = [&] { return as_nobody([&] { return std::to_string(Journal::open(path, true).trials(1, "search").size()); }); };
    chmod(folder.path().c_str(), 0555);
    chmod(path.c_str(), 0666);
    EXPECT_THAT(as_nobody([&] { return Journal::create(folder.file("b.db"), run_info()).info().date; }),
        AllOf(HasSubstr("b.db"), HasSubstr(folder.path()), HasSubstr("Permission denied")));
    EXPECT_THAT(write(), AllOf(HasSubstr("folder " + folder.path()), HasSubstr("Permission denied")));
    EXPECT_EQ(read(), "1") << "what is only read needs no writable folder";
    chmod(folder.path().c_str(), 0777);
    chmod(path.c_str(), 0444);
    EXPECT_THAT(write(), AllOf(HasSubstr("a.db cannot be written"), HasSubstr("Permission denied")));
    EXPECT_EQ(read(), "1");
    chmod(path.c_str(), 0000);
    EXPECT_THAT(read(), AllOf(HasSubstr("a.db cannot be read"), HasSubstr("Permission denied")));
}

TEST(Journal, RefusesASecondWriter) {
    const Folder folder;
    const std::string path = folder.file("a.db");
    Journal journal = Journal::create(path, run_info());
    const pid_t child = fork();
    if (child == 0) {
        const std::string text = error_of([&] { Journal::open(path, false); });
        _exit(text.find("another run") != std::string::npos ? 0 : 1);
    }
    int end = 0;
    waitpid(child, &end, 0);
    EXPECT_EQ(end, 0);
    EXPECT_EQ(Journal::open(path, true).info().date, run_info().date) << "readers may look on";
}

// A disk that is full after so many writes, as SQLite's own system calls see it.
class Disk {
public:
    explicit Disk(int writes) : vfs_(sqlite3_vfs_find(nullptr)) {
        left_ = writes;
        replace(
            "write", +[](int file, const void *data, size_t n) { return full() ? -1 : ::write(file, data, n); });
        const auto at = +[](int file, const void *data, size_t n, off_t offset) { return full() ? -1 : ::pwrite(file, data, n, offset); };
        replace("pwrite", at);
        replace("pwrite64", at);
    }
    ~Disk() {
        for (const auto &[name, call] : calls_) vfs_->xSetSystemCall(vfs_, name, call);
    }

private:
    template <class Call> void replace(const char *name, Call call) {
        calls_.emplace_back(name, vfs_->xGetSystemCall(vfs_, name));
        vfs_->xSetSystemCall(vfs_, name, reinterpret_cast<sqlite3_syscall_ptr>(call));
    }
    static bool full() {
        errno = ENOSPC;
        return left_-- <= 0;
    }

    static inline int left_;
    sqlite3_vfs *vfs_;
    std::vector<std::pair<const char *, sqlite3_syscall_ptr>> calls_;
};

TEST(Journal, SaysThatTheDiskIsFull) {
    const Folder folder;
    const std::string path = folder.file("a.db");
    {
        Journal journal = Journal::create(path, run_info());
        const int64_t id = journal.task(task());
        journal.add(id, "search", {trial(16, 1)});
        {
            const Disk full(0);
            EXPECT_THAT(error_of([&] {
                journal.add(id, "search", {trial(32, 1), trial(48, 1)});
            }),
                AllOf(HasSubstr(path), HasSubstr("cannot be written: the disk is full")));
            EXPECT_THAT(error_of([&] { journal.finish(id, trial(16, 1).config, "x"); }), HasSubstr("cannot be written: the disk is full"));
        }
        EXPECT_TRUE(same(journal.trials(id, "search"), {trial(16, 1)}));
        EXPECT_FALSE(journal.finished(id).done);
        journal.add(id, "search", {trial(64, 1)});
    }
    EXPECT_TRUE(same(Journal::open(path, true).trials(1, "search"), {trial(16, 1), trial(64, 1)}));
    {
        const Disk full(0);
        EXPECT_THAT(error_of([&] { Journal::create(folder.file("b.db"), run_info()); }), HasSubstr("cannot be written: the disk is full"));
    }
    for (const auto &entry : fs::directory_iterator(folder.path())) {
        EXPECT_EQ(entry.path().filename().string().substr(0, 4), "a.db") << "nothing half written is left";
    }
}

TEST(Journal, IsWrittenAsAWholeWhereverTheDiskFillsUp) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    const int64_t id = journal.task(task());
    journal.add(id, "search", {trial(16, 1)});
    int writes = 0;
    for (bool done = false; !done; writes++) {
        const Disk disk(writes);
        done = error_of([&] { journal.add(id, "search", {trial(32, 1), trial(48, 1)}); }).empty();
        ASSERT_EQ(journal.trials(id, "search").size(), done ? 3u : 1u) << "full after " << writes << " writes";
    }
    EXPECT_GT(writes, 2);
}

}  // namespace
}  // namespace gdn::tune
