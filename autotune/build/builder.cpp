#include "autotune/build/builder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "autotune/build/fnv.h"
#include "autotune/build/process.h"
#include "autotune/clock.h"
#include "autotune/data/files.h"
#include "autotune/machine.h"

namespace gdn::tune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kEntrySchema = 1;
constexpr double kStartSeconds = 30;         // for a generator that is only asked who it is
constexpr uint64_t kFullBytes = 1ull << 20;  // a disk with less free space than that makes compilers fail
constexpr size_t kMostWords = 2000;

std::optional<std::string> read_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return std::nullopt;
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return in.bad() ? std::nullopt : std::optional(std::move(text));
}

void write_file(const std::string &path, const std::string &text) {
    errno = 0;
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw Error("cannot write " + path + ": " + std::strerror(errno ? errno : EIO));
}

/// The last lines of what a program said, in characters that JSON can hold.
std::string last_words(std::string text) {
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    if (text.size() > kMostWords) {
        text.erase(0, text.size() - kMostWords);
        const size_t line = text.find('\n');
        if (line != std::string::npos) text.erase(0, line + 1);
    }
    return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

std::vector<std::string> words_of(const std::string &text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

/// What the compiler sees of a configuration.
std::string compiled_part(const Request &request) { return text_of(part_of(request.config, request.kernel->space, true)); }

/// A folder to work in, beside the entries that come of it.
class WorkFolder {
public:
    explicit WorkFolder(const std::string &cache) : path_(cache + "/.work.XXXXXX") {
        if (!mkdtemp(path_.data())) throw Error("cannot write to the folder of compiled candidates " + cache + ": " + std::strerror(errno));
        chmod(path_.c_str(), 0755);  // what is made here is for everyone who can read the cache
    }
    ~WorkFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    WorkFolder(const WorkFolder &) = delete;
    WorkFolder &operator=(const WorkFolder &) = delete;
    const std::string &path() const { return path_; }

private:
    std::string path_;
};

struct Generator {
    std::string hash, halide, made_with;
};

Generator identify(const std::string &generator) {
    struct stat file;
    if (stat(generator.c_str(), &file) != 0) throw Error("cannot read the generator " + generator + ": " + std::strerror(errno));
    static std::mutex mutex;
    static std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, Generator> known;
    const std::lock_guard lock(mutex);
    Generator &g = known[{generator, file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_size}];
    if (!g.hash.empty()) return g;

    std::string said;
    ChildOptions options;
    options.argv = {generator, "--version"};
    options.merge_stderr = true;
    const Exit exit = run(options, kStartSeconds, &said);
    const std::string words = last_words(said), name = "Halide ";
    const size_t at = words.rfind(name);
    if (!exit.ok() || at == std::string::npos) {
        throw Error("the generator " + generator + " does not say which Halide it is made with (--version): " + exit.text +
                    (words.empty() ? "" : ", ") + words);
    }
    const std::optional<std::string> bytes = read_file(generator);
    if (!bytes) throw Error("cannot read the generator " + generator + ": " + std::strerror(errno));
    g.halide = words.substr(at + name.size());
    g.hash = name_of_content(*bytes + "\n" + g.halide);
    // "gdn.generator of sources 0123.., Halide 21.0.0": the same wherever it was built.
    const std::string sources = "of sources ";
    const size_t from = words.rfind(sources);
    g.made_with = from == std::string::npos ? g.hash : name_of_content(words.substr(from));
    return g;
}

/// Entries of the cache, <cache>/<name of the key>/: entry.json, which holds the whole key, and candidate.so.
class Cache {
public:
    explicit Cache(std::string folder) : folder_(std::move(folder)) {
        std::error_code error;
        fs::create_directories(folder_, error);
        if (error) throw Error("cannot make the folder of compiled candidates " + folder_ + ": " + error.message());
        WorkFolder can_be_written(folder_);
        remove_left_over(folder_, [](const std::string &name) { return name.compare(0, 6, ".work.") == 0; });
    }

    const std::string &folder() const { return folder_; }

    /// What is known of a key; nothing where the entry is absent, damaged, or of another key with the same name.
    std::optional<Built> find(const std::string &key) const {
        const std::string entry = folder_ + "/" + name_of_content(key);
        const std::optional<std::string> text = read_file(entry + "/entry.json");
        if (!text) return std::nullopt;
        try {
            const json fields = json::parse(*text);
            if (fields.at("schema") != kEntrySchema || fields.at("key") != key) return std::nullopt;
            Built built;
            built.status = status_of(fields.at("status"));
            built.hash = fields.at("hash");
            built.error = fields.at("error");
            built.seconds = fields.at("seconds");
            built.cached = true;
            if (built.status != Status::kOk) return built;
            built.path = entry + "/candidate.so";
            const std::optional<std::string> object = read_file(built.path);
            if (!object || name_of_content(*object) != fields.at("object")) return std::nullopt;
            return built;
        } catch (const json::exception &) {
            return std::nullopt;
        } catch (const Error &) {  // a status of another version
            return std::nullopt;
        }
    }

    /// Makes the work folder, with candidate.so in it if there is one, the entry of the key.
    void keep(const std::string &key, const WorkFolder &work, Built *built) const {
        const std::string entry = folder_ + "/" + name_of_content(key);
        json fields = {{"schema", kEntrySchema}, {"key", key}, {"status", name_of(built->status)}, {"hash", built->hash},
            {"error", built->error}, {"seconds", built->seconds}};
        if (built->status == Status::kOk) {
            const std::optional<std::string> object = read_file(work.path() + "/candidate.so");
            if (!object) throw Error("cannot read " + work.path() + "/candidate.so: " + std::strerror(errno));
            fields["object"] = name_of_content(*object);
            built->path = entry + "/candidate.so";
        }
        write_file(work.path() + "/entry.json", fields.dump(1) + "\n");
        for (int tries = 0; rename(work.path().c_str(), entry.c_str()) != 0; tries++) {
            if ((errno != ENOTEMPTY && errno != EEXIST) || tries == 10) throw Error("cannot write " + entry + ": " + std::strerror(errno));
            if (find(key)) return;  // another process has built the same
            const WorkFolder damaged(folder_);
            rename(entry.c_str(), damaged.path().c_str());  // fails where another process is doing just that
        }
    }

    /// Whether compilers fail because there is no room for what they write.
    void require_space() const {
        struct statvfs disk;
        if (statvfs(folder_.c_str(), &disk) == 0 && disk.f_blocks && disk.f_bavail * disk.f_frsize < kFullBytes) {
            throw Error("cannot write to the folder of compiled candidates " + folder_ + ": " + std::strerror(ENOSPC));
        }
    }

private:
    std::string folder_;
};

class ProcessBuilder : public Builder {
public:
    explicit ProcessBuilder(const BuilderOptions &options)
        : options_(options), generator_(identify(options.generator)), cache_(options.cache) {}

    std::vector<Built> build(
        const std::vector<Request> &requests, const std::function<void(size_t)> &done, const std::atomic<bool> *stop) override;

private:
    /// From the cache, or made. kSkipped once `halt` is set.
    Built get(const Request &request, const std::string &key, const std::atomic<bool> &halt) const;
    /// Fills `work` with candidate.so; `lasting`: the outcome would be the same another time.
    Built make(const Request &request, const WorkFolder &work, const std::atomic<bool> &halt, bool *lasting) const;

    BuilderOptions options_;
    Generator generator_;
    Cache cache_;
};

Built ProcessBuilder::make(const Request &request, const WorkFolder &work, const std::atomic<bool> &halt, bool *lasting) const {
    const std::string object = work.path() + "/candidate.o", library = work.path() + "/candidate.so";
    std::vector<std::string> generate = {options_.generator};
    for (std::string &word : words_of(request.kernel->arguments)) generate.push_back(std::move(word));
    if (const std::string config = compiled_part(request); !config.empty()) generate.push_back("config=" + config);
    generate.insert(generate.end(), {"-f", "candidate", "-e", "object", "-o", work.path()});

    Built built;
    const double begin = now();
    const auto step = [&](const std::vector<std::string> &argv, const std::string &result) {
        ChildOptions child;
        child.argv = argv;
        child.memory_bytes = options_.memory_bytes;
        child.merge_stderr = true;
        child.stop = &halt;
        std::string said;
        const Exit exit = run(child, options_.seconds - (now() - begin), &said);
        built.seconds = now() - begin;
        *lasting = exit.kind == Exit::Kind::kCode;
        if (exit.kind == Exit::Kind::kNotStarted) throw Error(exit.text);
        if (exit.kind == Exit::Kind::kStopped) return false;
        if (exit.ok() && fs::exists(result)) return true;
        built.status = exit.kind == Exit::Kind::kTimeout ? Status::kBuildTimeout : Status::kBuildFailed;
        // Words that are the same another time do not name the folder where this happened.
        for (size_t at; (at = said.find(work.path() + "/")) != std::string::npos;) said.erase(at, work.path().size() + 1);
        const std::string program = fs::path(argv[0]).filename(), words = last_words(said);
        if (exit.kind == Exit::Kind::kTimeout) {
            std::ostringstream limit;
            limit << program << ": the build took longer than " << options_.seconds << " s";
            built.error = limit.str();
        } else {
            cache_.require_space();
            built.error = program + (exit.ok() ? " made no " + fs::path(result).filename().string() : ": " + exit.text);
        }
        if (!words.empty()) built.error += "\n" + words;
        return false;
    };
    if (!step(generate, object)) return built;
    std::vector<std::string> link = words_of(options_.linker);
    link.insert(link.end(), {"-shared", "-o", library, object});
    if (!step(link, library)) return built;
    const std::optional<std::string> code = read_file(object);
    if (!code) throw Error("cannot read " + object + ": " + std::strerror(errno));
    built.hash = short_name_of_content(*code);
    built.status = Status::kOk;
    return built;
}

Built ProcessBuilder::get(const Request &request, const std::string &key, const std::atomic<bool> &halt) const {
    if (std::optional<Built> found = cache_.find(key)) return *found;
    const WorkFolder work(cache_.folder());
    bool lasting = false;
    Built built = make(request, work, halt, &lasting);
    std::error_code absent;
    fs::remove(work.path() + "/candidate.o", absent);
    if (lasting) cache_.keep(key, work, &built);
    return built;
}

std::vector<Built> ProcessBuilder::build(
    const std::vector<Request> &requests, const std::function<void(size_t)> &done, const std::atomic<bool> *stop) {
    if (identify(options_.generator).hash != generator_.hash) {
        throw Error("the generator " + options_.generator + " has changed since this run began: what it makes now is not comparable");
    }
    // Requests with one key are built once.
    std::vector<std::pair<std::string, std::vector<size_t>>> tasks;
    std::map<std::string, size_t> task_of;
    for (size_t i = 0; i < requests.size(); i++) {
        const std::string key = "generator " + generator_.hash + "\nhalide " + generator_.halide + "\narguments " +
                                requests[i].kernel->arguments + "\nconfig " + compiled_part(requests[i]) + "\n";
        const auto [it, is_new] = task_of.emplace(key, tasks.size());
        if (is_new) tasks.push_back({key, {}});
        tasks[it->second].second.push_back(i);
    }

    std::vector<Built> built(requests.size());
    std::atomic<size_t> next{0};
    std::atomic<bool> halt{stop && *stop};
    std::mutex mutex;
    std::condition_variable changed;
    size_t finished = 0, alive = 0;
    std::exception_ptr failure;
    const auto work = [&] {
        for (size_t t; !halt && (t = next++) < tasks.size();) {
            const auto &[key, indices] = tasks[t];
            Built one;
            std::exception_ptr thrown;
            try {
                one = get(requests[indices[0]], key, halt);
            } catch (...) {
                thrown = std::current_exception();
                halt = true;
            }
            const std::lock_guard lock(mutex);
            if (thrown && !failure) failure = thrown;
            for (size_t i : indices) built[i] = one;
            if (one.status != Status::kSkipped) finished += indices.size();
            changed.notify_one();
        }
        const std::lock_guard lock(mutex);
        alive--;
        changed.notify_one();
    };

    struct Workers {
        std::vector<std::thread> threads;
        std::atomic<bool> &halt;
        ~Workers() {
            halt = true;  // `done` may throw
            for (std::thread &thread : threads) thread.join();
        }
    };
    {
        Workers workers{{}, halt};
        int jobs = options_.jobs;
        if (jobs <= 0) jobs = std::max(1, static_cast<int>(allowed_cpus().size()));
        std::unique_lock lock(mutex);
        while (alive < std::min(static_cast<size_t>(jobs), tasks.size())) {
            workers.threads.emplace_back(work);
            alive++;
        }
        for (size_t told = 0; alive || told < finished;) {
            if (told == finished) changed.wait_for(lock, std::chrono::milliseconds(50));
            if (stop && *stop) halt = true;
            if (told == finished) continue;
            told = finished;
            lock.unlock();
            if (done) done(told);
            lock.lock();
        }
    }
    if (failure) std::rethrow_exception(failure);
    return built;
}

}  // namespace

std::unique_ptr<Builder> make_builder(const BuilderOptions &options) { return std::make_unique<ProcessBuilder>(options); }

std::string generator_hash(const std::string &generator) { return identify(generator).made_with; }

std::string halide_version(const std::string &generator) { return identify(generator).halide; }

}  // namespace gdn::tune
