#include "autotune/db/journal.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "autotune/db/sqlite.h"

namespace gdn::tune {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int64_t kApplication = 0x67646e6a;  // "gdnj"
constexpr int64_t kSchema = 2;

// `ns` and `anchor_ns` are JSON: a list per shape, a number per round. Costs are NULL where there are no samples.
constexpr const char *kTables = R"sql(
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    device TEXT NOT NULL, generator_hash TEXT NOT NULL, halide_version TEXT NOT NULL, gdn_version TEXT NOT NULL, date TEXT NOT NULL,
    doctor TEXT NOT NULL, noisy INTEGER NOT NULL);
CREATE TABLE task (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL, target TEXT NOT NULL, class TEXT NOT NULL, shapes TEXT NOT NULL, space TEXT NOT NULL,
    default_config TEXT NOT NULL, kernel_arguments TEXT NOT NULL, searcher TEXT NOT NULL, seed INTEGER NOT NULL, batch INTEGER NOT NULL,
    rounds INTEGER NOT NULL, shard INTEGER NOT NULL, shards INTEGER NOT NULL, winner TEXT, why TEXT,
    UNIQUE (kernel, target, class));
CREATE TABLE trial (
    id INTEGER PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES task, phase TEXT NOT NULL CHECK (phase IN ('search', 'final')), config TEXT NOT NULL,
    status TEXT NOT NULL, cost REAL, low REAL, high REAL, median REAL, mad REAL, samples INTEGER NOT NULL, abandoned INTEGER NOT NULL,
    verify_error REAL, build_seconds REAL, object_hash TEXT NOT NULL, error TEXT NOT NULL, ns TEXT NOT NULL, anchor_ns TEXT NOT NULL,
    UNIQUE (task, phase, config));
-- A row per task: its winner once the final phase is through, else the best so far.
CREATE VIEW best AS
    SELECT kernel, target, class, phase, config, cost, low, high, winner IS NOT NULL AS finished FROM (
        SELECT *, row_number() OVER (PARTITION BY task
            ORDER BY (phase = 'final' AND config IS winner) DESC, phase = 'final' DESC, cost, trial.id) AS place
        FROM trial JOIN task ON task.id = trial.task WHERE status = 'ok' AND NOT abandoned)
    WHERE place = 1 ORDER BY kernel, target, class;
)sql";

constexpr const char *kTaskColumns =
    "id, kernel, target, class, shapes, space, default_config, kernel_arguments, searcher, seed, batch, shard, shards, rounds";

std::string error_text() { return std::strerror(errno); }

// "B=1,T=1024,H=16; B=1,T=8192,H=16"
std::string text_of(const std::vector<Shape> &shapes) {
    std::string text;
    for (const Shape &shape : shapes) text += (text.empty() ? "" : "; ") + tune::text_of(shape);
    return text;
}

std::vector<Shape> shapes_of(const std::string &text) {
    std::vector<Shape> shapes;
    for (size_t begin = 0, end; begin < text.size(); begin = end + 2) {
        end = std::min(text.find("; ", begin), text.size());
        for (const Shape &shape : parse_shapes(text.substr(begin, end - begin))) shapes.push_back(shape);
    }
    return shapes;
}

// JSON has no NaN: null stands for it.
std::vector<std::vector<double>> samples_of(const std::string &text) {
    std::vector<std::vector<double>> samples;
    for (const json &shape : json::parse(text)) {
        samples.emplace_back();
        for (const json &value : shape) samples.back().push_back(value.is_null() ? std::nan("") : value.get<double>());
    }
    return samples;
}

// "cols:16,32 default 32", by name.
std::map<std::string, std::string> descriptions(const Space &space) {
    std::map<std::string, std::string> texts;
    for (const Parameter &p : space.parameters()) {
        std::string &text = texts[p.name];
        for (const int value : p.values) text += (text.empty() ? p.name + ":" : ",") + std::to_string(value);
        text += " default " + std::to_string(p.default_value);
    }
    return texts;
}

std::string difference(const std::string &what, const std::string &here, const std::string &there) {
    return here == there ? "" : what + ": " + (here.empty() ? "none" : here) + " here, " + (there.empty() ? "none" : there) + " there";
}

std::string difference(const Space &here, const Space &there) {
    if (here.hash() == there.hash()) return "";
    std::map<std::string, std::string> a = descriptions(here), b = descriptions(there);
    for (const auto &[name, text] : a) {
        if (text != b[name]) return difference("space", text, b[name]);
    }
    for (const auto &[name, text] : b) {
        if (text != a[name]) return difference("space", a[name], text);
    }
    return difference("constraints of the space (hash)", here.hash(), there.hash());
}

// Two runs that measure at the same time disturb each other and would mix their trials: a byte that SQLite has no use for is locked
// while a journal is open for writing. The lock goes with the process, however it ends.
int lock(const std::string &path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) throw Error("the journal " + path + " cannot be written: " + error_text());
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = off_t{1} << 62;
    range.l_len = 1;
    if (fcntl(fd, F_OFD_SETLK, &range) != 0 && (errno == EAGAIN || errno == EACCES)) {
        close(fd);
        throw Error("the journal " + path + " is being written by another run");
    }
    return fd;
}

void sync(const fs::path &path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

fs::path folder_of(const std::string &path) {
    const fs::path folder = fs::path(path).parent_path();
    return folder.empty() ? "." : folder;
}

void require_writable_folder(const std::string &path) {
    const fs::path folder = folder_of(path);
    if (access(folder.c_str(), W_OK | X_OK) != 0) {
        throw Error("the journal " + path + " cannot be written: folder " + folder.string() + ": " + error_text());
    }
}

Task task_of(const Statement &row) {
    Task task;
    task.kernel = row.text(1);
    task.target = row.text(2);
    task.length_class = length_class_of(row.text(3));
    task.shapes = shapes_of(row.text(4));
    task.space = Space::parse(row.text(5));
    task.default_config = parse_config(row.text(6));
    task.kernel_arguments = row.text(7);
    task.searcher = row.text(8);
    task.seed = static_cast<uint64_t>(row.integer(9));
    task.batch = static_cast<size_t>(row.integer(10));
    task.shard = static_cast<int>(row.integer(11));
    task.shards = static_cast<int>(row.integer(12));
    task.rounds = static_cast<int>(row.integer(13));
    return task;
}

Trial trial_of(const Statement &row) {
    Trial trial;
    trial.config = parse_config(row.text(0));
    trial.status = status_of(row.text(1));
    trial.cost.samples = static_cast<int>(row.integer(7));
    if (trial.cost.samples) {
        trial.cost.value = row.real(2);
        trial.cost.low = row.real(3);
        trial.cost.high = row.real(4);
        trial.cost.median = row.real(5);
        trial.cost.mad = row.real(6);
    }
    trial.abandoned = row.integer(8);
    trial.verify_error = row.real(9);
    trial.build_seconds = row.real(10);
    trial.object_hash = row.text(11);
    trial.error = row.text(12);
    trial.ns = samples_of(row.text(13));
    trial.anchor = samples_of(row.text(14));
    return trial;
}

}  // namespace

std::string Task::name() const {
    return kernel + " " + target + (length_class == LengthClass::kAny ? "" : std::string(" ") + name_of(length_class));
}

std::string Task::difference(const Task &other) const {
    using tune::difference;
    for (const std::string &text : {difference("kernel", name(), other.name()), difference(space, other.space),
             difference("shapes", text_of(shapes), text_of(other.shapes)),
             difference("default configuration", text_of(default_config), text_of(other.default_config)),
             difference("generator arguments", kernel_arguments, other.kernel_arguments), difference("searcher", searcher, other.searcher),
             difference("seed", std::to_string(seed), std::to_string(other.seed)),
             difference("batch", std::to_string(batch), std::to_string(other.batch)),
             difference("rounds", std::to_string(rounds), std::to_string(other.rounds))}) {
        if (!text.empty()) return text;
    }
    return "";
}

struct Journal::State {
    State(const std::string &path, bool read_only)
        : writer(read_only ? -1 : lock(path)), db(path, read_only ? Database::Mode::kRead : Database::Mode::kWrite) {}
    // What SQLite holds is locked by the process as a whole, and closing any descriptor of the file unlocks it: the database goes first.
    struct Descriptor {
        explicit Descriptor(int number) : number(number) {}
        ~Descriptor() {
            if (number >= 0) close(number);
        }
        Descriptor(const Descriptor &) = delete;
        int number;
    } writer;
    Database db;
    RunInfo info;

    int64_t pragma(const char *sql) {
        Statement row(db, sql);
        return row.step() ? row.integer(0) : 0;
    }

    /// `alone`: there was no log, so the file is the whole database.
    void check(int64_t size, bool alone) {
        if (const int64_t id = pragma("PRAGMA application_id"); id != kApplication) {
            throw Error(db.path() + " is an SQLite file, but no journal of gdn tune");
        }
        if (const int64_t schema = pragma("PRAGMA user_version"); schema != kSchema) {
            db.fail("has schema " + std::to_string(schema) + ", this program reads schema " + std::to_string(kSchema) +
                    (schema > kSchema ? ": a newer gdn has made it" : ""));
        }
        // SQLite takes the missing end of a page for zeros.
        if (alone && size % pragma("PRAGMA page_size") != 0) db.fail("is corrupt: its end is missing");
        Statement row(db, "PRAGMA quick_check(1)");
        if (!row.step()) db.fail("is corrupt");
        if (const std::string found = row.text(0); found != "ok") db.fail("is corrupt: " + found);
    }

    // What a foreign hand has written is an Error, too.
    template <class Function> auto reading(Function function) -> decltype(function()) {
        try {
            return function();
        } catch (const json::exception &error) {
            db.fail(std::string("is corrupt: ") + error.what());
        }
    }
};

Journal::Journal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Journal::~Journal() = default;
Journal::Journal(Journal &&) noexcept = default;

Journal Journal::create(const std::string &path, const RunInfo &info) {
    if (path.empty()) throw Error("the journal has no name");
    const std::string exists = "the journal " + path + " exists: go on with it, or choose another name";
    if (fs::exists(path)) throw Error(exists);
    require_writable_folder(path);
    // Made beside, so that whatever happens there is a whole journal or none.
    const std::string fresh = path + ".new" + std::to_string(getpid());
    const auto discard = [&] {
        for (const char *end : {"", "-wal", "-shm"}) unlink((fresh + end).c_str());
    };
    discard();
    try {
        Database db(fresh, Database::Mode::kCreate);
        // Nobody sees it before it is whole and on the disk.
        db.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
        Transaction all(db);
        db.execute(kTables);
        db.execute(("PRAGMA application_id = " + std::to_string(kApplication)).c_str());
        db.execute(("PRAGMA user_version = " + std::to_string(kSchema)).c_str());
        Statement(db, "INSERT INTO run VALUES (1, ?, ?, ?, ?, ?, ?, ?)")
            .bind(
                info.device.json(), info.generator_hash, info.halide_version, info.gdn_version, info.date, info.doctor, info.noisy ? 1 : 0)
            .step();
        all.commit();
        db.execute("PRAGMA journal_mode = WAL");
    } catch (...) {
        discard();
        throw;
    }
    sync(fresh);
    // Unlike rename(), link() replaces nothing; a file system without hard links has only the former.
    if (link(fresh.c_str(), path.c_str()) != 0 && (errno == EEXIST || rename(fresh.c_str(), path.c_str()) != 0)) {
        const std::string reason = errno == EEXIST ? exists : "the journal " + path + " cannot be written: " + error_text();
        discard();
        throw Error(reason);
    }
    discard();
    sync(folder_of(path));
    return open(path, false);
}

Journal Journal::open(const std::string &path, bool read_only) {
    struct stat facts;
    if (path.empty() || stat(path.c_str(), &facts) != 0) throw Error("there is no journal " + path + ": " + error_text());
    if (!S_ISREG(facts.st_mode)) throw Error("the journal " + path + " is no file");
    if (access(path.c_str(), R_OK) != 0) throw Error("the journal " + path + " cannot be read: " + error_text());
    if (!read_only) {
        if (access(path.c_str(), W_OK) != 0) throw Error("the journal " + path + " cannot be written: " + error_text());
        require_writable_folder(path);
    }
    const bool alone = access((path + "-wal").c_str(), F_OK) != 0;
    auto state = std::make_unique<State>(path, read_only);
    state->check(facts.st_size, alone);
    // Where WAL is not to be had, SQLite keeps its rollback journal, which is as safe.
    if (!read_only) state->db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    state->reading([&] {
        Statement row(state->db, "SELECT device, generator_hash, halide_version, gdn_version, date, doctor, noisy FROM run");
        if (!row.step()) state->db.fail("is corrupt: it has no run");
        RunInfo &info = state->info;
        info.device = Device::parse(row.text(0));
        info.generator_hash = row.text(1);
        info.halide_version = row.text(2);
        info.gdn_version = row.text(3);
        info.date = row.text(4);
        info.doctor = row.text(5);
        info.noisy = row.integer(6);
    });
    return Journal(std::move(state));
}

const RunInfo &Journal::info() const { return state_->info; }

void Journal::require_same(const RunInfo &now) const {
    if (const std::string text = now.device.difference(state_->info.device); !text.empty()) {
        state_->db.fail("was made on another device (" + text + "): measurements of two devices do not mix");
    }
    if (const std::string text = tune::difference("generator hash", now.generator_hash, state_->info.generator_hash); !text.empty()) {
        state_->db.fail("was made with other kernels (" + text + "): begin a new one");
    }
}

void Journal::mark_noisy(const std::string &doctor) {
    Statement(state_->db, "UPDATE run SET noisy = 1, doctor = ?").bind(doctor).step();
    state_->info.noisy = true;
    state_->info.doctor = doctor;
}

int64_t Journal::task(const Task &task) {
    const std::string class_name = name_of(task.length_class);
    return state_->reading([&] {
        Statement find(
            state_->db, ("SELECT " + std::string(kTaskColumns) + " FROM task WHERE kernel = ? AND target = ? AND class = ?").c_str());
        if (find.bind(task.kernel, task.target, class_name).step()) {
            const Task known = task_of(find);
            Task searched = known;
            if (task.searcher == "given") {  // configurations named one by one belong to any search of the kernel
                searched.searcher = task.searcher;
                searched.space = task.space;
                searched.seed = task.seed;
                searched.batch = task.batch;
            }
            std::string text = task.difference(searched);
            if (text.empty()) {
                const auto shard = [](const Task &t) { return std::to_string(t.shard) + "/" + std::to_string(t.shards); };
                text = tune::difference("shard", shard(task), shard(known));
            }
            if (!text.empty()) state_->db.fail("holds another search of " + task.name() + " (" + text + "): begin a new one");
            return find.integer(0);
        }
        Statement insert(state_->db,
            "INSERT INTO task (kernel, target, class, shapes, space, default_config, kernel_arguments, searcher, seed, "
            "batch, shard, shards, rounds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
        insert.bind(task.kernel, task.target, class_name, text_of(task.shapes), task.space.json(), text_of(task.default_config),
            task.kernel_arguments, task.searcher, static_cast<int64_t>(task.seed), static_cast<int64_t>(task.batch), task.shard,
            task.shards, task.rounds);
        insert.step();
        const int64_t id = insert.integer(0);
        insert.step();
        return id;
    });
}

std::vector<std::pair<int64_t, Task>> Journal::tasks() const {
    return state_->reading([&] {
        std::vector<std::pair<int64_t, Task>> tasks;
        Statement row(state_->db, ("SELECT " + std::string(kTaskColumns) + " FROM task ORDER BY id").c_str());
        while (row.step()) tasks.emplace_back(row.integer(0), task_of(row));
        return tasks;
    });
}

void Journal::add(int64_t task, const std::string &phase, const std::vector<Trial> &trials) {
    if (trials.empty()) return;
    Transaction all(state_->db);
    if (phase == "search") {
        Statement(state_->db, "DELETE FROM trial WHERE task = ? AND phase = 'final'").bind(task).step();
        Statement(state_->db, "UPDATE task SET winner = NULL, why = NULL WHERE id = ?").bind(task).step();
    }
    Statement row(state_->db,
        "INSERT OR REPLACE INTO trial (task, phase, config, status, cost, low, high, median, mad, samples, abandoned, "
        "verify_error, build_seconds, object_hash, error, ns, anchor_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Trial &t : trials) {
        const auto known = [&](double value) { return t.cost.samples ? value : std::nan(""); };
        row.bind(task, phase, text_of(t.config), name_of(t.status), known(t.cost.value), known(t.cost.low), known(t.cost.high),
            known(t.cost.median), known(t.cost.mad), t.cost.samples, t.abandoned ? 1 : 0, t.verify_error, t.build_seconds, t.object_hash,
            t.error, json(t.ns).dump(), json(t.anchor).dump());
        row.step();
        row.reset();
    }
    all.commit();
}

std::vector<Trial> Journal::trials(int64_t task, const std::string &phase) const {
    return state_->reading([&] {
        std::vector<Trial> trials;
        Statement row(state_->db,
            "SELECT config, status, cost, low, high, median, mad, samples, abandoned, verify_error, build_seconds, object_hash, "
            "error, ns, anchor_ns FROM trial WHERE task = ? AND phase = ? ORDER BY id");
        row.bind(task, phase);
        while (row.step()) trials.push_back(trial_of(row));
        return trials;
    });
}

void Journal::finish(int64_t task, const Config &winner, const std::string &why) {
    Statement(state_->db, "UPDATE task SET winner = ?, why = ? WHERE id = ?").bind(text_of(winner), why, task).step();
}

Journal::Finish Journal::finished(int64_t task) const {
    Finish finish;
    Statement row(state_->db, "SELECT winner, why FROM task WHERE id = ?");
    if (!row.bind(task).step() || row.null(0)) return finish;
    finish.done = true;
    finish.winner = parse_config(row.text(0));
    finish.why = row.text(1);
    return finish;
}

}  // namespace gdn::tune
