#include "autotune/data/files.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "autotune/status.h"

namespace gdn::tune {

namespace fs = std::filesystem;

namespace {

void write_and_sync(const std::string &path, const std::string &text) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = file >= 0;
    for (size_t at = 0; good && at < text.size();) {
        const ssize_t n = write(file, text.data() + at, text.size() - at);
        if (n < 0 && errno == EINTR) continue;
        good = n > 0;
        if (good) at += static_cast<size_t>(n);
    }
    good = good && fsync(file) == 0;
    const int error = errno;
    if (file >= 0) close(file);
    if (!good) throw Error("cannot write " + path + ": " + std::strerror(error));
}

}  // namespace

std::string file_text(const std::string &path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (!fs::is_directory(path) && file && (file.peek() == EOF || text << file.rdbuf()) && !file.bad()) return text.str();
    throw Error("cannot read " + path + ": " + (fs::is_directory(path) ? "it is a folder" : std::strerror(errno ? errno : EIO)));
}

void replace_files(const Files &files) {
    std::set<fs::path> places;
    std::error_code ignored;
    for (const auto &[path, text] : files) {
        if (!places.insert(fs::absolute(path, ignored).lexically_normal()).second) throw Error(path + " would be written twice");
    }
    const auto beside = [](const std::string &path) { return path + ".new" + std::to_string(getpid()); };
    try {
        for (const auto &[path, text] : files) {
            const fs::path folder = fs::path(path).parent_path();
            std::error_code error;
            if (!folder.empty()) fs::create_directories(folder, error);
            if (error) throw Error("cannot make the folder " + folder.string() + ": " + error.message());
            if (fs::is_directory(path)) throw Error("cannot write " + path + ": it is a folder");
            write_and_sync(beside(path), text);
        }
        for (const auto &[path, text] : files) {
            if (std::rename(beside(path).c_str(), path.c_str()) != 0) throw Error("cannot write " + path + ": " + std::strerror(errno));
        }
    } catch (...) {
        for (const auto &[path, text] : files) unlink(beside(path).c_str());
        throw;
    }
}

void remove_left_over(const std::string &folder, const std::function<bool(const std::string &)> &being_made) {
    constexpr std::chrono::hours kLeftOver{1};
    std::error_code error;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder, error)) {
        std::error_code gone;
        if (!being_made(entry.path().filename().string())) continue;
        if (fs::file_time_type::clock::now() - entry.last_write_time(gone) > kLeftOver && !gone) fs::remove_all(entry.path(), gone);
    }
}

}  // namespace gdn::tune
