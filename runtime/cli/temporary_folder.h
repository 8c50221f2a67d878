// A folder for the length of a command.
#pragma once
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "command.h"

namespace gdn::cli {

/// Removes the folder with everything in it at the end.
struct TemporaryFolder {
    std::filesystem::path path;
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "gdn.XXXXXX").string();
        if (!mkdtemp(name.data())) throw Failure(kExitFailure, "cannot make a temporary folder: " + std::string(std::strerror(errno)));
        path = name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;
};

}  // namespace gdn::cli
