// A folder of one test, gone with it.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gdn_test {

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "gdn_test_XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;

    const std::string &path() const { return path_; }
    std::string file(const std::string &name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

inline std::string read_text(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_text(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

/// What a call says when it throws, "" if it does not.
template <class Call> std::string error_of(Call call) {
    try {
        call();
    } catch (const std::exception &error) {
        return error.what();
    }
    return "";
}

}  // namespace gdn_test
