#include "repeated_mapping.h"

#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

namespace gdn_test {

RepeatedMapping::RepeatedMapping(std::size_t piece, std::size_t times) : bytes_(piece * times) {
    char path[] = "/tmp/gdn-repeated-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return;
    unlink(path);
    if (ftruncate(file, static_cast<off_t>(piece)) == 0) {
        void *range = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        bool good = range != MAP_FAILED;
        for (std::size_t i = 0; good && i < times; i++)
            good = mmap(static_cast<unsigned char *>(range) + i * piece, piece, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
        if (good)
            data_ = static_cast<unsigned char *>(range);
        else if (range != MAP_FAILED)
            munmap(range, bytes_);
    }
    close(file);
}

RepeatedMapping::~RepeatedMapping() {
    if (data_) munmap(data_, bytes_);
}

}  // namespace gdn_test
