// two_copies LIBRARY COPY: two copies of libgdn in one process, as two plug-ins would bring them, called from four threads and unloaded.
#include "check.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

static bool load(const char *path, void **library, gdn_functions *functions) {
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        std::printf("%s\n", dlerror());
        return false;
    }
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"gdn_args_init", &functions->args_init}, {"gdn_context_create", &functions->context_create},
        {"gdn_context_destroy", &functions->context_destroy}, {"gdn_forward", &functions->forward},
        {"gdn_last_error", &functions->last_error}};
    for (const auto &w : wanted) {
        void *symbol = dlsym(*library, w.name);
        if (!symbol) {
            std::printf("%s: no %s\n", path, w.name);
            return false;
        }
        std::memcpy(w.function, &symbol, sizeof symbol);
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    void *libraries[2];
    gdn_functions functions[2];
    for (int i = 0; i < 2; i++) {
        if (!load(argv[1 + i], &libraries[i], &functions[i])) return 1;
    }
    if (functions[0].forward == functions[1].forward) {
        std::printf("one library twice, not two\n");
        return 1;
    }
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back([&, i] { failed += check(&functions[i % 2], 50, 100 * i); });
    for (auto &thread : threads) thread.join();
    for (int i = 0; i < 2; i++) {
        dlclose(libraries[i]);
        if (dlopen(argv[1 + i], RTLD_NOW | RTLD_NOLOAD)) {
            std::printf("%s is still loaded after dlclose\n", argv[1 + i]);
            failed++;
        }
    }
    return failed != 0;
}
